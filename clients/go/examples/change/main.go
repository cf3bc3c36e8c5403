// Command change has an agent change a repository, decides at the terminal what it asks for, and publishes a draft pull request:
//
//	go run ./examples/change owner/name "Add a page about discounts."
//
// Without a terminal everything is approved.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	slipway "github.com/slipway-dev/slipway/clients/go"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 3 {
		log.Fatal("usage: change owner/name PROMPT")
	}
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, repo, prompt string) error {
	address := os.Getenv("SLIPWAY_URL")
	if address == "" {
		address = "http://127.0.0.1:4000"
	}
	client, err := slipway.New(address, os.Getenv("SLIPWAY_API_KEY"))
	if err != nil {
		return err
	}
	sandbox, err := client.CreateSandbox(ctx, slipway.CreateSandbox{
		Repos:            []slipway.RepoRef{{FullName: repo}},
		Prompt:           prompt,
		ToolApprovalMode: slipway.ToolApprovalModePrompt,
	})
	if err != nil {
		return err
	}
	fmt.Println("sandbox", sandbox.ID)
	// Also after an interrupt, which ends ctx.
	defer client.TerminateSandbox(context.Background(), sandbox.ID)
	if err := follow(ctx, client, sandbox.ID); err != nil {
		return err
	}
	published, err := client.PublishPullRequest(ctx, sandbox.ID, slipway.PublishPullRequest{})
	if err != nil {
		return err
	}
	if published.PullRequest == nil {
		fmt.Println("It is published in the background.")
		return nil
	}
	fmt.Println(published.PullRequest.URL)
	return nil
}

// follow decides what the agent asks for, until its turn ends, and prints what it said.
func follow(ctx context.Context, client *slipway.Client, id string) error {
	stream := client.StreamEvents(ctx, id, slipway.StreamOptions{
		Since:  "0",
		OnLost: func(err *slipway.Error, wait time.Duration) { log.Printf("%v; again in %s", err, wait) },
	})
	defer stream.Close()
	var parts []string
	said := map[string]string{}
	for stream.Next() {
		data, err := stream.Event().Decode()
		if err != nil {
			return err
		}
		switch data := data.(type) {
		case *slipway.MessageUpdatedEvent:
			if _, isKnown := said[data.PartID]; !isKnown && data.Kind == "text" {
				parts = append(parts, data.PartID)
			}
			// Each event has all of its part so far.
			said[data.PartID] = data.Text
		case *slipway.ApprovalRequestedEvent:
			if err := decide(ctx, client, id, data); err != nil {
				return err
			}
		case *slipway.TurnCompletedEvent:
			for _, part := range parts {
				fmt.Println(said[part])
			}
			if data.State != slipway.TurnCompletedEventStateSucceeded {
				return fmt.Errorf("the turn %s: %s", data.State, data.Reason)
			}
			return nil
		}
	}
	if stream.Err() != nil {
		return stream.Err()
	}
	return errors.New("the sandbox ended before its turn did")
}

func decide(ctx context.Context, client *slipway.Client, id string, asked *slipway.ApprovalRequestedEvent) error {
	input, err := os.Stdin.Stat()
	if err == nil && input.Mode()&os.ModeCharDevice != 0 {
		if asked.Preview != nil {
			fmt.Println(asked.Preview.Command, asked.Preview.Diff, asked.Preview.URL, asked.Preview.Arguments)
		}
		fmt.Printf("%s: approve? [y/n] ", asked.Tool)
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if strings.TrimSpace(strings.ToLower(answer)) != "y" {
			_, err := client.Deny(ctx, id, asked.ApprovalID, "")
			return err
		}
	}
	_, err = client.Approve(ctx, id, asked.ApprovalID)
	return err
}
