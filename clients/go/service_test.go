package slipway

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// service connects to a service that runs: SLIPWAY_URL, a key of a grant that may use acme/shop, the offline agent.
func service(t *testing.T) (*Client, string, string) {
	address, key := os.Getenv("SLIPWAY_URL"), os.Getenv("SLIPWAY_API_KEY")
	if address == "" || key == "" {
		t.Skip("SLIPWAY_URL and SLIPWAY_API_KEY say where a service runs")
	}
	client, err := New(address, key)
	if err != nil {
		t.Fatal(err)
	}
	return client, address, key
}

// cutting passes connections to the service, and cuts each of the first ones after so many bytes of the reply.
func cutting(t *testing.T, address string, after []int64) (string, *atomic.Int32) {
	parsed, err := url.Parse(address)
	equal(t, err, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	equal(t, err, nil)
	t.Cleanup(func() { listener.Close() })
	cuts := new(atomic.Int32)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			most := int64(-1)
			if len(after) > 0 {
				most, after = after[0], after[1:]
			}
			go pass(from, parsed.Host, most, cuts)
		}
	}()
	return "http://" + listener.Addr().String(), cuts
}

func pass(from net.Conn, host string, most int64, cuts *atomic.Int32) {
	defer from.Close()
	to, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer to.Close()
	go io.Copy(to, from)
	if most < 0 {
		io.Copy(from, to)
	} else if count, err := io.CopyN(from, to, most); err == nil && count == most {
		cuts.Add(1)
	}
}

func shop(prompt string) CreateSandbox {
	return CreateSandbox{Repos: []RepoRef{{FullName: "acme/shop"}}, Prompt: prompt}
}

func TestAStreamThatIsCutAgainAndAgainHasEveryEventOfTheServiceOnce(t *testing.T) {
	client, address, key := service(t)
	after := []int64{1, 200}
	for bytes := int64(700); bytes < 2500; bytes += 150 {
		after = append(after, bytes)
	}
	for count := 0; count < 8; count++ {
		after = append(after, 1200)
	}
	between, cuts := cutting(t, address, after)
	through, err := New(between, key, WithReconnect(time.Millisecond))
	equal(t, err, nil)
	sandbox, err := client.CreateSandbox(ctx, shop("[[say one]] [[slow 40 5]] [[write path=a.txt content=a]] [[say Größe €]]"))
	equal(t, err, nil)
	stream := through.StreamEvents(ctx, sandbox.ID, StreamOptions{Since: "0"})
	defer stream.Close()
	var told []Event
	for stream.Next() {
		if event := stream.Event(); event.ID != "" {
			told = append(told, event)
		}
		if stream.Event().Type == EventTypeTurnCompleted {
			_, err := client.TerminateSandbox(ctx, sandbox.ID)
			equal(t, err, nil)
		}
	}
	equal(t, stream.Err(), nil)
	var logged []Event
	for query := (ListEventsQuery{}); ; {
		page, err := client.ListEvents(ctx, sandbox.ID, query)
		equal(t, err, nil)
		if len(page.Data) == 0 {
			break
		}
		logged = append(logged, page.Data...)
		query.After, err = strconv.ParseInt(page.NextCursor, 10, 64)
		equal(t, err, nil)
	}
	same(t, told, logged)
	for at, event := range told {
		equal(t, event.ID, strconv.Itoa(at+1))
		if _, err := event.Decode(); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, told[len(told)-1].Type, EventTypeSandboxStatus)
	if cuts.Load() <= 5 {
		t.Fatalf("only %d connections were cut", cuts.Load())
	}
}

func TestASandboxFromItsPromptToItsPullRequest(t *testing.T) {
	client, _, _ := service(t)
	body := shop("[[write path=docs/b.txt content=bee]]")
	body.ToolApprovalMode = ToolApprovalModePrompt
	key := WithIdempotencyKey(newKey())
	sandbox, err := client.CreateSandbox(ctx, body, key)
	equal(t, err, nil)
	again, err := client.CreateSandbox(ctx, body, key)
	equal(t, err, nil)
	equal(t, again.ID, sandbox.ID)
	_, err = client.CreateSandbox(ctx, shop("another"), key)
	equal(t, failed(t, err).Status, 409)

	id := sandbox.ID
	approvals := 0
	stream := client.StreamEvents(ctx, id, StreamOptions{Since: "0"})
	defer stream.Close()
	isCompleted := false
	for !isCompleted && stream.Next() {
		data, err := stream.Event().Decode()
		equal(t, err, nil)
		switch data := data.(type) {
		case *ApprovalRequestedEvent:
			approvals++
			result, err := client.Approve(ctx, id, data.ApprovalID)
			equal(t, err, nil)
			equal(t, result.Outcome, CommandResultOutcomeApplied)
		case *TurnCompletedEvent:
			equal(t, data.State, TurnCompletedEventStateSucceeded)
			isCompleted = true
		}
	}
	equal(t, stream.Err(), nil)
	equal(t, approvals, 1)
	file, err := client.DownloadFile(ctx, id, "docs/b.txt", DownloadFileQuery{})
	equal(t, err, nil)
	defer file.Close()
	content, err := io.ReadAll(file)
	equal(t, err, nil)
	equal(t, string(content), "bee\n")
	diff, err := client.DiffFiles(ctx, id, DiffFilesQuery{From: "base"})
	equal(t, err, nil)
	equal(t, strings.Contains(string(diff), "+bee"), true)
	tree, err := client.ListFiles(ctx, id, ListFilesQuery{})
	equal(t, err, nil)
	hasDocs := false
	for _, entry := range tree.Entries {
		hasDocs = hasDocs || entry.Path == "docs"
	}
	equal(t, hasDocs, true)
	snapshot, err := client.Snapshot(ctx, id)
	equal(t, err, nil)
	equal(t, snapshot.Sandbox.ID, id)
	image, err := client.UploadFile(ctx, []byte("\x00\xff"), UploadOptions{Name: "ü.bin"})
	equal(t, err, nil)
	equal(t, image.Name, "ü.bin")
	publish(t, client, id)
	page, err := client.ListSandboxes(ctx, ListSandboxesQuery{Repo: "acme/shop", Status: SandboxStatusRunning})
	equal(t, err, nil)
	isListed := false
	for _, one := range page.Data {
		isListed = isListed || one.ID == id
	}
	equal(t, isListed, true)
	result, err := client.TerminateSandbox(ctx, id)
	equal(t, err, nil)
	equal(t, result.Outcome, CommandResultOutcomeApplied)
}

func publish(t *testing.T, client *Client, id string) {
	published, err := client.PublishPullRequest(ctx, id, PublishPullRequest{})
	equal(t, err, nil)
	// A publication that takes longer than 20 s goes on, and is asked about.
	for published.DetailsPending {
		equal(t, pause(ctx, 500*time.Millisecond), nil)
		published, err = client.GetPullRequest(ctx, id, GetPullRequestQuery{})
		equal(t, err, nil)
	}
	if published.PullRequest == nil || !published.PullRequest.Draft {
		t.Fatalf("%+v", published)
	}
}

func TestErrorsOfTheServiceHaveTheirCodes(t *testing.T) {
	client, address, _ := service(t)
	_, err := client.GetSandbox(ctx, "c_aaaaaaaaaaaa")
	found := failed(t, err)
	equal(t, found.Code, "not_found")
	equal(t, found.RequestID != "", true)
	_, err = client.CreateSandbox(ctx, CreateSandbox{Repos: []RepoRef{}, Prompt: "x"})
	equal(t, failed(t, err).Status, 400)
	unknown, err := New(address, "sbx_live_none")
	equal(t, err, nil)
	_, err = unknown.ListSandboxes(ctx, ListSandboxesQuery{})
	equal(t, failed(t, err).Status, 401)
	var none *Error
	equal(t, errors.As(err, &none), true)
}
