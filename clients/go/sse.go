package slipway

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

const maxBlockBytes = 32 << 20

var (
	errLongBlock = errors.New("the block is too long")
	byteOrder    = []byte("\ufeff")
)

// block is one of an event stream (WHATWG HTML, section 9.2.6), as far as an API needs it.
type block struct {
	data    []byte
	hasData bool
	id      string
	hasID   bool
	// The service's wait before a reconnection.
	retry    time.Duration
	hasRetry bool
}

// blockReader reads blocks as they arrive.
type blockReader struct {
	from io.Reader
	most int
	// What was read and is not yet in a line.
	ahead []byte
	space []byte
	line  []byte
	// The bytes of the block so far.
	size  int
	began bool
	// The last line ended with CR: a LF after it is of the same end.
	skipLF bool
	failed error
}

func newBlockReader(from io.Reader) *blockReader {
	return &blockReader{from: from, most: maxBlockBytes, space: make([]byte, 64<<10)}
}

// next returns the next block. It fails with errLongBlock or the reader's error; a block that the end cuts off is dropped, as the
// standard says.
func (reader *blockReader) next() (block, error) {
	var read block
	reader.size = 0
	for {
		line, err := reader.nextLine()
		switch {
		case err != nil:
			return block{}, err
		case len(line) == 0:
			return read, nil
		}
		read.add(line)
	}
}

func (read *block) add(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if read.hasData {
			read.data = append(read.data, '\n')
		}
		read.data, read.hasData = append(read.data, value...), true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			read.id, read.hasID = string(value), true
		}
	case "retry":
		// Digits only.
		if millis, err := strconv.ParseUint(string(value), 10, 40); err == nil {
			read.retry, read.hasRetry = time.Duration(millis)*time.Millisecond, true
		}
	}
}

// nextLine returns a line without its end: CR, LF or both. It is valid until the next call.
func (reader *blockReader) nextLine() ([]byte, error) {
	reader.line = reader.line[:0]
	for {
		if reader.skipLF && len(reader.ahead) > 0 {
			reader.ahead, reader.skipLF = bytes.TrimPrefix(reader.ahead, []byte("\n")), false
		}
		end := bytes.IndexAny(reader.ahead, "\r\n")
		part := reader.ahead
		if end >= 0 {
			part = reader.ahead[:end]
		}
		reader.size += len(part)
		if reader.size > reader.most {
			return nil, errLongBlock
		}
		reader.line = append(reader.line, part...)
		if end >= 0 {
			reader.skipLF = reader.ahead[end] == '\r'
			reader.ahead = reader.ahead[end+1:]
			return reader.withoutByteOrder(), nil
		}
		reader.ahead = nil
		if reader.failed != nil {
			return nil, reader.failed
		}
		var count int
		count, reader.failed = reader.from.Read(reader.space)
		reader.ahead = reader.space[:count]
	}
}

// withoutByteOrder drops the byte order mark that the first line may have.
func (reader *blockReader) withoutByteOrder() []byte {
	if reader.began {
		return reader.line
	}
	reader.began = true
	return bytes.TrimPrefix(reader.line, byteOrder)
}
