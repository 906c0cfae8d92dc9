// SPDX-License-Identifier: MIT

package dibs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// program runs `dibs ... --json` for each call.
type program struct {
	name    string
	dir     string
	socket  string
	group   string
	timeout time.Duration // 0: the program's own
}

func newProgram(o Options) *program {
	p := &program{name: o.Program, dir: o.Dir, socket: o.Socket, group: o.Group, timeout: o.Timeout}
	if p.name == "" {
		p.name = os.Getenv("DIBS")
	}
	if p.name == "" {
		p.name = "dibs"
	}
	return p
}

func (p *program) tooLate() error {
	return fail(ErrUnavailable, "program %s: no answer in time; check it with 'dibs doctor', or wait longer with "+
		"DIBS_TIMEOUT", p.name)
}

// limited keeps the first bytes that are written to it: a broken program must not fill the memory.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(data []byte) (int, error) {
	if l.Len()+len(data) > l.max {
		return 0, errors.New("the answer is too long")
	}
	return l.Buffer.Write(data)
}

// run executes the program and reads its answer. The end of the context kills it.
func (p *program) run(ctx context.Context, into interface{}, verb string, args ...string) error {
	path, err := exec.LookPath(p.name)
	if err != nil {
		return fail(ErrUnavailable, "the program %s is needed here and cannot be run: %v; install dibs, name the program "+
			"with DIBS, or ask a daemon for absolute names (/GROUP/NAME)", quote(p.name), err)
	}
	line := []string{verb, "--json", "--quiet"}
	if p.socket != "" {
		line = append(line, "--socket="+p.socket)
	}
	if p.timeout != 0 {
		line = append(line, "--timeout="+durationText(p.timeout))
	}
	cmd := exec.CommandContext(ctx, path, append(line, args...)...)
	cmd.Dir = p.dir
	stdout, stderr := &limited{max: answerMax}, &limited{max: 1 << 20}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	apart(cmd)
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return p.failure(err, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		return fail(ErrUnavailable, "program %s: its answer is not understood; is it of another version?", p.name)
	}
	return nil
}

// failure reads the error that the program wrote, its last line, below its warnings.
func (p *program) failure(err error, stderr string) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return fail(ErrUnavailable, "program %s: %v", p.name, err)
	}
	if status, ok := ended.Sys().(interface{ Signaled() bool }); ok && status.Signaled() {
		killed := fail(ErrFailure, "program %s: %v", p.name, err)
		killed.isKilled = true
		return killed
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	var got struct {
		Error struct {
			Exit    Code     `json:"exit"`
			Message string   `json:"message"`
			Blocker *Blocker `json:"blocker"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(lines[len(lines)-1]), &got) != nil || got.Error.Exit == 0 {
		return fail(ErrFailure, "program %s: %v: %s", p.name, err, quote(stderr))
	}
	code := got.Error.Exit
	if code > ErrDenied { // 74: the answer could not be written
		code = ErrFailure
	}
	return &Error{Code: code, Message: got.Error.Message, Blocker: got.Error.Blocker}
}

// option adds --NAME=VALUE unless the value is empty. One word: a value may begin with a dash.
func option(args []string, name, value string) []string {
	if value == "" {
		return args
	}
	return append(args, "--"+name+"="+value)
}

func (h Holder) options(args []string) []string {
	switch {
	case h.kind == 'k':
		return append(args, "--keep")
	case h.kind == 'l' && h.ttl == 0:
		return args
	case h.kind == 'l':
		return option(args, "ttl", durationText(h.ttl))
	}
	return option(args, "pid", strconv.Itoa(h.process()))
}

func (p *program) claim(ctx context.Context, o *order) ([]Claim, error) {
	var args []string
	switch o.mode() {
	case Required:
		args = option(args, "port", strconv.Itoa(int(o.Port)))
	case Preferred:
		args = option(args, "prefer", strconv.Itoa(int(o.Port)))
	case Declared:
		args = option(args, "declare", strconv.Itoa(int(o.Port)))
	}
	args = option(args, "range", o.Range)
	args = option(args, "pool", o.Pool)
	args = option(args, "proto", joinProtos(o.Protos, "+"))
	args = option(args, "hold", string(o.Hold))
	for _, address := range o.Addresses {
		args = option(args, "address", address)
	}
	if o.isLookup {
		return p.get(ctx, args, o.names[0])
	}
	args = option(o.Holder.options(args), "key", o.key)
	if o.Contiguous {
		args = append(args, "--contiguous")
	}
	if o.Align != 0 {
		args = option(args, "align", strconv.Itoa(o.Align))
	}
	if o.DryRun {
		args = append(args, "--dry-run")
	}
	if o.names[0] == "" {
		args = option(args, "count", strconv.Itoa(len(o.names)))
	} else {
		args = append(append(args, "--"), o.names...)
	}
	var claims []Claim
	o.isSent.set()
	err := p.run(ctx, &claims, "claim", args...)
	var refusal *Error
	if errors.As(err, &refusal) && refusal.isKilled { // by another process: the key finds what it has claimed
		o.isRepeated.set()
		err = p.run(ctx, &claims, "claim", args...)
	}
	if err != nil {
		return nil, err
	}
	if len(claims) != len(o.names) {
		return nil, fail(ErrUnavailable, "program %s: %d claims instead of %d", p.name, len(claims), len(o.names))
	}
	return claims, nil
}

func (p *program) get(ctx context.Context, args []string, name string) ([]Claim, error) {
	args = append(args, "--force") // an absolute name may be of any project, as with a daemon
	if isAbsolute(name) {
		args = append(args, "--create")
	}
	var claim Claim
	if err := p.run(ctx, &claim, "get", append(args, "--", name)...); err != nil {
		return nil, err
	}
	return []Claim{claim}, nil
}

func isAbsolute(name string) bool { return strings.HasPrefix(name, "/") }

// options writes the selector as the last arguments.
func (w Which) options(args []string) []string {
	switch {
	case w.Token != "":
		return option(args, "token", w.Token)
	case w.Name != "":
		return append(args, "--", w.Name)
	}
	return append(args, "--", strconv.Itoa(int(w.Port)))
}

func (p *program) find(ctx context.Context, w Which) (claim Claim, err error) {
	args := []string{"--force"}
	if w.Token == "" && w.Name != "" {
		args = append(args, "--existing")
	}
	err = p.run(ctx, &claim, "get", w.options(args)...)
	claim.WasThere = false // says nothing here: a daemon leaves it out, too
	return claim, err
}

func (p *program) release(ctx context.Context, w Which, force bool) (int, error) {
	var flags []string
	if force {
		flags = append(flags, "--force")
	}
	projects, err := p.projects(ctx, w)
	total := 0
	for i := 0; i < len(projects) && err == nil; i++ {
		var got struct {
			Released int `json:"released"`
		}
		args := option(append([]string{}, flags...), "project", projects[i])
		err = p.run(ctx, &got, "release", w.options(args)...)
		total += got.Released
	}
	return total, err
}

// projects lists the directories that the claims of a selector belong to, "" for none: the command ends only
// those of one project at a time.
func (p *program) projects(ctx context.Context, w Which) ([]string, error) {
	out := []string{""}
	if w.Token != "" || w.Name != "" && !isAbsolute(w.Name) {
		return out, nil
	}
	args := []string{"--all"}
	if w.Name != "" {
		args = append(args, "--", w.Name)
	} else {
		args = option(args, "port", strconv.Itoa(int(w.Port)))
	}
	var claims []Claim
	err := p.run(ctx, &claims, "ls", args...)
	if errors.Is(err, ErrUnavailable) {
		return out, nil // a port that was given without the ledger ends without it
	}
	if err != nil {
		return nil, err
	}
	mine, _ := p.principal(ctx)
	isSeen := map[string]bool{}
	for _, claim := range claims {
		isNamed := w.Name == "" || "/"+claim.Name == w.Name || isMember("/"+claim.Name, w.Name)
		if isNamed && claim.Principal == mine && claim.Project != "" && !isSeen[claim.Project] {
			isSeen[claim.Project] = true
			out = append(out, claim.Project)
		}
	}
	if len(out) > 1 {
		out = out[1:] // each of them also ends what has no project
	}
	return out, nil
}

func (p *program) renew(ctx context.Context, w Which, ttl time.Duration) (claim Claim, err error) {
	args := []string{"--force"}
	if ttl != 0 {
		args = option(args, "ttl", durationText(ttl))
	}
	err = p.run(ctx, &claim, "renew", w.options(args)...)
	return claim, err
}

func (p *program) transfer(ctx context.Context, w Which, to Holder) (claim Claim, err error) {
	if to.kind == 'l' && to.ttl == 0 {
		return claim, usage("a transfer to a lease needs its length")
	}
	err = p.run(ctx, &claim, "transfer", w.options(to.options([]string{"--force"}))...)
	return claim, err
}

func (p *program) assert(ctx context.Context, w Which) (socket Socket, err error) {
	if w.Token != "" { // the command takes none
		claim, err := p.find(ctx, w)
		if err != nil {
			return socket, err
		}
		claim.Token = ""
		w = claim.Which()
	}
	err = p.run(ctx, &socket, "assert", w.options(nil)...)
	return socket, err
}

func (p *program) explain(ctx context.Context, port uint16, q Question) (report Report, err error) {
	args := option(nil, "proto", joinProtos(q.Protos, "+"))
	args = option(args, "pool", q.Pool)
	for _, address := range q.Addresses {
		args = option(args, "address", address)
	}
	err = p.run(ctx, &report, "explain", Which{Port: port}.options(args)...)
	return report, err
}

// page returns the whole list: the program reads the ledger page by page itself.
func (p *program) page(ctx context.Context, f Filter, _ uint64) ([]Claim, uint64, error) {
	args := []string{"--all"}
	args = option(args, "pool", f.Pool)
	args = option(args, "proto", string(f.Proto))
	if f.Port != 0 {
		args = option(args, "port", strconv.Itoa(int(f.Port)))
	}
	if f.Prefix != "" {
		args = append(args, "--", f.Prefix)
	}
	var all []Claim
	if err := p.run(ctx, &all, "ls", args...); err != nil {
		return nil, 0, err
	}
	claims := all[:0]
	for _, claim := range all {
		if (f.Project == "" || f.Project == claim.Project) && (f.Principal == "" || f.Principal == claim.Principal) {
			claims = append(claims, claim)
		}
	}
	return claims, 0, nil
}

func (p *program) pools(ctx context.Context) (pools []Pool, err error) {
	err = p.run(ctx, &pools, "pool")
	return pools, err
}

func (p *program) principal(context.Context) (string, error) {
	return "uid:" + strconv.Itoa(os.Geteuid()), nil
}

const (
	eventPauseMin = 50 * time.Millisecond // between two looks at the ledger
	eventPauseMax = time.Second
)

// events asks again until there are events after a number. It asks for the event of that number, too: without
// it, events were dropped or the ledger was replaced.
func (p *program) events(ctx context.Context, since uint64, mayWait bool) ([]Event, error) {
	from := since
	if since > 0 {
		from--
	}
	for pause := eventPauseMin; ; pause = 2 * pause {
		var events []Event
		if err := p.run(ctx, &events, "log", "--since="+strconv.FormatUint(from, 10), "--limit=1000"); err != nil {
			return nil, err
		}
		if since > 0 && (len(events) == 0 || events[0].Seq > since+1) {
			return nil, ErrMissed
		}
		if since > 0 && events[0].Seq == since {
			events = events[1:]
		}
		if len(events) > 0 || !mayWait {
			return events, nil
		}
		if pause > eventPauseMax {
			pause = eventPauseMax
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (p *program) newest(ctx context.Context) (uint64, error) {
	var events []Event
	err := p.run(ctx, &events, "log", "--limit=1")
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[0].Seq, nil
}

// manifest runs a command on the manifest of the directory.
func (p *program) manifest(ctx context.Context, into interface{}, verb string, args ...string) error {
	return p.run(ctx, into, verb, append(option(nil, "group", p.group), args...)...)
}
