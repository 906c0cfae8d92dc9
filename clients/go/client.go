// SPDX-License-Identifier: MIT

package dibs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Options of a client; the zero value is right for most.
type Options struct {
	// Socket is the daemon's: its path, "auto" or "none". Empty: the setting, which is DIBS_SOCKET first, else
	// auto: the socket of the system's daemon or of the user's own if it is there, else none. With none, every
	// call runs the program.
	Socket string
	// Program runs when there is no daemon, for names that are relative to a project, and for manifests. Empty:
	// $DIBS, else dibs of the PATH.
	Program string
	// Dir is the directory whose project relative names belong to. Empty: the working directory.
	Dir string
	// Group makes "web" the name GROUP/web in every directory; no manifest is read for it.
	Group string
	// Timeout bounds each exchange. 0: the setting, which is 5s by default.
	Timeout time.Duration
	// Warn is called when a claim could not be taken back after its call was cancelled. It may be called from
	// another goroutine. nil: nothing is called.
	Warn func(error)
}

// Client asks dibs. It may be used by several goroutines.
type Client struct {
	options    Options
	timeout    time.Duration
	daemon     *daemon // nil: none
	program    *program
	background sync.WaitGroup // claims of cancelled calls that are being taken back
}

// asker is what carries out a call: the daemon or the program. Names are absolute, without the leading slash,
// but for those of the program that begin without one.
type asker interface {
	claim(ctx context.Context, o *order) ([]Claim, error)
	find(ctx context.Context, w Which) (Claim, error)
	release(ctx context.Context, w Which, force bool) (int, error)
	renew(ctx context.Context, w Which, ttl time.Duration) (Claim, error)
	transfer(ctx context.Context, w Which, to Holder) (Claim, error)
	assert(ctx context.Context, w Which) (Socket, error)
	explain(ctx context.Context, port uint16, q Question) (Report, error)
	page(ctx context.Context, f Filter, after uint64) ([]Claim, uint64, error)
	pools(ctx context.Context) ([]Pool, error)
	principal(ctx context.Context) (string, error)
	events(ctx context.Context, since uint64, mayWait bool) ([]Event, error)
	newest(ctx context.Context) (uint64, error)
	tooLate() error
}

// New returns a client. It decides here, once, between daemon and program: a daemon that ends later is an
// error (ErrUnavailable), never a silent change to another ledger. If the program is installed, it is asked for
// its settings; else those of the environment count.
func New(options Options) (*Client, error) {
	c := &Client{options: options, program: newProgram(options)}
	if err := checkText("option", options.Socket, options.Program, options.Dir, options.Group); err != nil {
		return nil, err
	}
	found, err := readSettings(c.program)
	if err != nil {
		return nil, err
	}
	if options.Socket != "" {
		found["socket"] = options.Socket
	}
	if c.timeout = options.Timeout; c.timeout == 0 {
		if c.timeout, err = found.timeout(); err != nil {
			return nil, err
		}
	}
	path, isNamed, err := found.daemon(options.Dir)
	if err != nil {
		return nil, err
	}
	if path != "" {
		c.daemon = newDaemon(path, isNamed, c.timeout, found.forDaemon())
	}
	return c, nil
}

// Socket returns the path of the daemon's socket; "" means that the client runs the program.
func (c *Client) Socket() string {
	if c.daemon == nil {
		return ""
	}
	return c.daemon.path
}

// Close waits until the claims of cancelled calls are taken back, at most half a minute. Claims stay.
func (c *Client) Close() error {
	c.background.Wait()
	if c.daemon != nil {
		c.daemon.http.CloseIdleConnections()
	}
	return nil
}

// checkText refuses what can be no argument of a program and no JSON.
func checkText(what string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return usage("%s %s is not UTF-8, or has a NUL", what, quote(text))
		}
	}
	return nil
}

// resolve returns who answers for these names, and the names as it takes them. Relative names are for the
// program alone, which reads git and manifests.
func (c *Client) resolve(names ...string) (asker, []string, error) {
	var to asker = c.program
	if c.daemon != nil {
		to = c.daemon
	}
	out := make([]string, len(names))
	for i, name := range names {
		if err := checkText("name", name); err != nil {
			return nil, nil, err
		}
		if name != "" && strings.Trim(strings.TrimPrefix(name, ":"), "0123456789") == "" {
			return nil, nil, usage("name %s is only a number, which would be taken for a port", quote(name))
		}
		if c.options.Group != "" && name != "" && name[0] != '/' {
			name = "/" + c.options.Group + "/" + name
		}
		if name != "" && name[0] != '/' {
			to = c.program
		}
		out[i] = name
	}
	if to == c.daemon {
		for i, name := range out {
			if name == "/" {
				return nil, nil, usage("a name cannot be empty")
			}
			out[i] = strings.TrimPrefix(name, "/")
		}
	}
	return to, out, nil
}

// resolveOne does the same for the name of a selector, if it has one.
func (c *Client) resolveOne(w Which) (asker, Which, error) {
	if w.Token != "" {
		w = Which{Token: w.Token}
	}
	if w == (Which{}) {
		return nil, w, usage("which claim? give its token, its name or its port")
	}
	if strings.Trim(w.Token, "0123456789abcdef.") != "" || len(w.Token) > 79 {
		return nil, w, usage("%s is no token", quote(w.Token))
	}
	to, names, err := c.resolve(w.Name)
	if err == nil {
		w.Name = names[0]
	}
	return to, w, err
}

// ask makes one exchange with a limit of its own. The end of the caller's context comes back as its error, the
// end of our time as ErrUnavailable.
func (c *Client) ask(ctx context.Context, to asker, exchange func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := exchange(bounded)
	if err == nil || ctx.Err() == nil && bounded.Err() == nil {
		return err
	}
	var refusal *Error
	if errors.As(err, &refusal) {
		return err // it came in time
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return to.tooLate()
}
