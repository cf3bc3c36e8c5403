package slipway

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func readBlocks(from io.Reader) []block {
	reader := newBlockReader(from)
	var found []block
	for {
		read, err := reader.next()
		if err != nil {
			return found
		}
		found = append(found, read)
	}
}

func data(text string) block { return block{data: []byte(text), hasData: true} }

func TestBlocksFollowTheStandard(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		expected []block
	}{
		"several lines of data are joined by line feeds":   {"data: a\ndata:b\ndata:  c\n\n", []block{data("a\nb\n c")}},
		"a line ends with LF, CR or both":                  {"data: a\rdata: b\r\ndata: c\n\r\n", []block{data("a\nb\nc")}},
		"CR alone ends blocks":                             {"data: a\r\rdata: b\r\r", []block{data("a"), data("b")}},
		"comments and unknown fields are ignored":          {": data: x\nevent: y\nfoo\ndata: a\n\n", []block{data("a")}},
		"a field without a colon is empty":                 {"data\n\n", []block{{hasData: true}}},
		"names of fields have no spaces and no other case": {" data: a\nDATA: b\n\n", []block{{}}},
		"an id with NULL is ignored":                       {"id: 1\nid: 2\x00\n\n", []block{{id: "1", hasID: true}}},
		"a wait has digits only":                           {"retry: 20\nretry: 1s\nretry: -1\nretry: +2\n\n", []block{{retry: 20 * time.Millisecond, hasRetry: true}}},
		"a byte order mark is dropped at the beginning":    {"\ufeffdata: a\n\n\ufeffdata: b\n\n", []block{data("a"), {}}},
		"a block that the end cuts off is dropped":         {"data: a\n\ndata: b\n", []block{data("a")}},
		"a colon may be in a value":                        {"data:: a: b\n\n", []block{data(": a: b")}},
	} {
		t.Run(name, func(t *testing.T) { same(t, readBlocks(strings.NewReader(test.text)), test.expected) })
	}
}

func TestBlocksAreTheSameWhereverTheBytesAreCut(t *testing.T) {
	text := []byte("\ufeffretry: 5\n\n: hb\n\nid: 1\ndata: {\"a\":\"\U0001F680\"}\n\nid:2\r\ndata:x\r\ndata: y\r\n\r\nid: 3\rdata: z\r\rid: 4\ndata: lost")
	whole := readBlocks(pieces(text, len(text)))
	equal(t, len(whole), 5)
	equal(t, string(whole[2].data), "{\"a\":\"\U0001F680\"}")
	equal(t, string(whole[3].data), "x\ny")
	for at := 1; at < len(text); at++ {
		same(t, readBlocks(&chunks{append([]byte(nil), text[:at]...), append([]byte(nil), text[at:]...)}), whole)
	}
	for _, size := range []int{1, 2, 3, 7} {
		same(t, readBlocks(pieces(text, size)), whole)
	}
}

func TestABlockOfOneLineEndWithCRIsReadBeforeTheNextByte(t *testing.T) {
	reader := newBlockReader(io.MultiReader(strings.NewReader("data: a\r\r"), neverReader{t}))
	read, err := reader.next()
	same(t, read, data("a"))
	equal(t, err, nil)
}

type neverReader struct{ t *testing.T }

func (reader neverReader) Read([]byte) (int, error) {
	reader.t.Fatal("more was read than the block")
	return 0, io.EOF
}

// endless is a line or a block without an end.
type endless struct{ text string }

func (text endless) Read(into []byte) (int, error) { return copy(into, text.text), nil }

func TestABlockHasABound(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 4096), "data: x\n", "id: " + strings.Repeat("1", 1000) + "\r"} {
		reader := newBlockReader(endless{text})
		reader.most = 1 << 20
		_, err := reader.next()
		if !errors.Is(err, errLongBlock) {
			t.Fatalf("%v", err)
		}
		if len(reader.line) > reader.most {
			t.Fatalf("%d bytes are kept", len(reader.line))
		}
	}
	// The bound is that of one block, not of the stream.
	reader := newBlockReader(endless{"data: " + strings.Repeat("x", 1000) + "\n\n"})
	reader.most = 2000
	for count := 0; count < 100; count++ {
		if _, err := reader.next(); err != nil {
			t.Fatal(err)
		}
	}
}
