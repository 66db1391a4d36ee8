package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// newServeCheckCommand asks a server whether it works, for containers and supervisors that have
// no other program to ask with.
func newServeCheckCommand(a *app) *cobra.Command {
	timeout := 2 * time.Second
	cmd := &cobra.Command{
		Use:   "check [URL]",
		Short: "Ask a server whether it is ready, as the health check of a container",
		Long: `Ask a server whether it is ready: it answers, and its folder of plans can be used.

URL is the server's address, http://127.0.0.1:7878 if it is left out. The exit code is 0 if
the server is ready, 1 if it is not.`,
		Example: `  neuroshard serve check
  neuroshard serve check https://plans.example.org --set timeout=5s`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("give one address", "serve check: %q is one argument too many", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			address := "http://127.0.0.1:7878"
			if len(args) > 0 {
				address = args[0]
			}
			return askReady(cmd.Context(), a.stdout, address, timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "most `time` to wait for an answer")
	return cmd
}

// askReady prints "ready" if the server at the address is, and fails with exit code 1 if not.
func askReady(ctx context.Context, out io.Writer, address string, timeout time.Duration) error {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return usagef("for example http://127.0.0.1:7878", "%q is not the address of a server", address)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("readyz").String(), http.NoBody)
	if err != nil {
		return bad(err, "")
	}
	const hint = "start one with: neuroshard serve --data FOLDER"
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return &exitError{exitNo, err, hint}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(answer.Body, 500))
		return &exitError{exitNo, fmt.Errorf("%s is not ready: %s %s", address, answer.Status, reason), ""}
	}
	fmt.Fprintln(out, "ready")
	return nil
}
