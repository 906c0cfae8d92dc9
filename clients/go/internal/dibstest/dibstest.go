// SPDX-License-Identifier: MIT

// Package dibstest gives each test a ledger of its own, with a real daemon and without one.
//
// The program is $DIBS, else dibs of the PATH; without one the tests are skipped.
package dibstest

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const helperVariable = "DIBS_TEST_HELPER" // what a copy of the test program does instead of testing

// Main runs the tests, or what a helper process is to do: its words after the name are the arguments.
func Main(m *testing.M, helpers map[string]func(args []string)) int {
	if name := os.Getenv(helperVariable); name != "" {
		if name == "listen" {
			listen(os.Args[1:])
		}
		helpers[name](os.Args[1:])
		return 0
	}
	if Program() == "" {
		flag.Parse()
		flag.Set("test.run", "^Test") // tests say that they are skipped, examples cannot
		return m.Run()
	}
	top, err := os.MkdirTemp("", "dibs-go") // for the examples
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(top)
	os.Setenv("DIBS", Program())
	os.Setenv("DIBS_LEDGER", "sqlite:"+top+"/ledger.db")
	os.Setenv("DIBS_SOCKET", "none")
	os.Setenv("XDG_CONFIG_HOME", top)
	return m.Run()
}

// listen binds ADDRESS:PORT and stays.
func listen(args []string) {
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	time.Sleep(time.Minute)
	listener.Close()
}

// Bench is one test's own ledger.
type Bench struct {
	T        testing.TB
	Dir      string // empty; the working directory of the program
	Socket   string // of the daemon; "" without one
	Program  string
	daemon   *exec.Cmd
	isServed bool
}

// Program returns the program under test.
func Program() string {
	name := os.Getenv("DIBS")
	if name == "" {
		name = "dibs"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	path, _ = filepath.Abs(path)
	return path
}

// Both runs a test with a daemon and without one.
func Both(t *testing.T, test func(t *testing.T, b *Bench)) {
	t.Helper()
	t.Run("daemon", func(t *testing.T) { test(t, New(t, true)) })
	t.Run("program", func(t *testing.T) { test(t, New(t, false)) })
}

// New makes a ledger, and a daemon for it.
func New(t testing.TB, isServed bool) *Bench {
	t.Helper()
	b := &Bench{T: t, Program: Program(), isServed: isServed}
	if b.Program == "" {
		t.Skip("the program dibs is not installed: name it with DIBS")
	}
	for _, pair := range os.Environ() {
		if name := strings.SplitN(pair, "=", 2)[0]; strings.HasPrefix(name, "DIBS_") && !strings.HasPrefix(name, "DIBS_TEST") {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
	top, err := os.MkdirTemp("", "dibs-go") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	b.Dir = filepath.Join(top, "project")
	if err := os.Mkdir(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"} {
		dir := filepath.Join(top, strings.ToLower(name))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, dir)
	}
	t.Setenv("DIBS", b.Program)
	t.Setenv("DIBS_LEDGER", "sqlite:"+filepath.Join(top, "ledger.db"))
	t.Setenv("DIBS_LEDGER_MODE", "strict")
	t.Setenv("DIBS_SOCKET", "none")
	t.Cleanup(func() { b.Stop(syscall.SIGTERM) })
	if isServed {
		b.Socket = filepath.Join(top, "dibs.sock")
		b.Start()
		t.Setenv("DIBS_SOCKET", b.Socket)
	}
	return b
}

// Start starts the daemon, which is ready on return.
func (b *Bench) Start() {
	b.T.Helper()
	b.daemon = exec.Command(b.Program, "serve", "--socket", b.Socket, "--admin-socket", b.Socket+".admin")
	b.daemon.Env = append(os.Environ(), "DIBS_SOCKET=none")
	log, err := os.OpenFile(b.Socket+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.T.Fatal(err)
	}
	defer log.Close()
	b.daemon.Stderr = log
	if err := b.daemon.Start(); err != nil {
		b.T.Fatal(err)
	}
	b.Until("the daemon answers", func() bool {
		connection, err := net.Dial("unix", b.Socket)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
}

// Signal sends a signal to the daemon.
func (b *Bench) Signal(signal os.Signal) {
	b.T.Helper()
	if err := b.daemon.Process.Signal(signal); err != nil {
		b.T.Fatal(err)
	}
}

// Stop ends the daemon, if there is one, and waits for its end.
func (b *Bench) Stop(signal os.Signal) {
	if b.daemon == nil {
		return
	}
	b.daemon.Process.Signal(signal)
	b.daemon.Wait()
	b.daemon = nil
}

// Until waits until a condition holds.
func (b *Bench) Until(what string, holds func() bool) {
	b.T.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.T.Fatalf("not within the time: %s", what)
		}
	}
}

// Dibs runs the program, to look from outside, and returns its output and its exit code.
func (b *Bench) Dibs(args ...string) (stdout, stderr string, code int) {
	b.T.Helper()
	var out, err strings.Builder
	cmd := exec.Command(b.Program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Dir, &out, &err
	if failure := cmd.Run(); failure != nil && cmd.ProcessState == nil {
		b.T.Fatal(failure)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// Held lists the ports that are claimed now, whatever their holder. Those of dead holders do not count.
func (b *Bench) Held() []int {
	b.T.Helper()
	out, stderr, code := b.Dibs("ls", "--all", "--json")
	var claims []struct {
		Port int
		Life string
	}
	if err := json.Unmarshal([]byte(out), &claims); err != nil || code != 0 {
		b.T.Fatalf("dibs ls: %v %s", err, stderr)
	}
	ports := []int{}
	for _, claim := range claims {
		if claim.Life != "dead" {
			ports = append(ports, claim.Port)
		}
	}
	return ports
}

// Sleeper is a process that lives until it is killed, or until the test ends.
func (b *Bench) Sleeper() *exec.Cmd {
	b.T.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { Kill(cmd) })
	return cmd
}

// Kill ends a process by SIGKILL and waits for its end.
func Kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// Helper starts a copy of the test program that does what Main has for the name, and returns its first line.
func (b *Bench) Helper(name string, args ...string) (*exec.Cmd, string) {
	b.T.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { Kill(cmd) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.T.Fatalf("helper %s: %v", name, err)
	}
	return cmd, strings.TrimSpace(line)
}

// script completes a shell script: $TOP is the folder of the test, $HELPER a copy of the test program.
func (b *Bench) script(text string) string {
	return fmt.Sprintf("TOP='%s'\nHELPER='%s'\n%s\n", filepath.Dir(b.Dir), os.Args[0], text)
}

// Shell runs a script and returns its output, without the last newline.
func (b *Bench) Shell(text string) string {
	b.T.Helper()
	out, err := exec.Command("sh", "-c", b.script(text)).Output()
	if err != nil {
		b.T.Errorf("%s: %v", text, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// Wrapper writes a shell script that stands for the program: "$DIBS" in it is the real one.
func (b *Bench) Wrapper(script string) string {
	b.T.Helper()
	path := filepath.Join(filepath.Dir(b.Dir), "wrapper")
	text := "#!/bin/sh\n" + b.script(script)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		b.T.Fatal(err)
	}
	return path
}

// Long returns the long form's number in the long runs, else the short one's.
func Long(long, short int) int {
	if os.Getenv("DIBS_TEST_LONG") == "1" {
		return long
	}
	return short
}
