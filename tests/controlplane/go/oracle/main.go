// Command oracle says what kube-scheduler thinks of a pod. It reads scenarios, one JSON object a
// line, and writes for each, in the same order, which nodes are feasible and who refuses the
// others. All judgement is kube-scheduler's own code, in its default configuration; no API server
// is needed. README.md in this folder describes both formats.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// longestLine bounds a scenario; a thousand nodes with their pods have about 10 MB.
const longestLine = 256 << 20

func main() {
	// A panic in a handler's goroutine shall cost one scenario, not the process.
	utilruntime.ReallyCrash = false
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers every line of the input, a few at a time, until it ends.
func serve(ctx context.Context, input io.Reader, output io.Writer) error {
	// A channel of channels keeps the order: a slow scenario holds back those after it. Its
	// capacity is what may run at once.
	pending := make(chan chan verdict, runtime.GOMAXPROCS(0))
	failed := make(chan error, 1)
	go func() { failed <- write(output, pending) }()
	readErr := read(ctx, input, pending)
	close(pending)
	if err := <-failed; err != nil {
		return err
	}
	return readErr
}

func read(ctx context.Context, input io.Reader, pending chan<- chan verdict) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		line := append([]byte(nil), lines.Bytes()...)
		answer := make(chan verdict, 1)
		pending <- answer
		go func() { answer <- answerLine(ctx, line) }()
	}
	return lines.Err()
}

// answerLine never fails: what is wrong with the line is in the verdict's error.
func answerLine(ctx context.Context, line []byte) verdict {
	parsed, err := parseScenario(line)
	if err != nil {
		answer := newVerdict(parsed.id)
		answer.Error = err.Error()
		return answer
	}
	return judge(ctx, parsed)
}

// write prints the verdicts in order, each at once, as whoever asks may wait for it.
func write(output io.Writer, pending <-chan chan verdict) error {
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for answer := range pending {
		if err := encoder.Encode(<-answer); err != nil {
			return fmt.Errorf("writing a verdict: %w", err)
		}
	}
	return nil
}
