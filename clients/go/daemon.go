// SPDX-License-Identifier: MIT

package dibs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	answerMax = 64 << 20              // bytes of an answer: 50,000 claims are 25 MiB
	pauseTime = 20 * time.Millisecond // between two attempts: a daemon restarts within a few of them
)

// daemon asks a daemon over its Unix socket.
type daemon struct {
	path      string
	isNamed   bool
	timeout   time.Duration
	http      http.Client
	settings  map[string]string // of the caller, instead of the daemon's
	isReached int32             // it has answered once: it comes back if it is away

	mu   sync.Mutex
	mine string // the caller's principal, once it is known
}

func newDaemon(path string, isNamed bool, timeout time.Duration, settings map[string]string) *daemon {
	d := &daemon{path: path, isNamed: isNamed, timeout: timeout, settings: settings}
	d.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", path)
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     20 * time.Second, // the daemon closes them after 30
	}
	d.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return d
}

func (d *daemon) tooLate() error {
	return fail(ErrUnavailable, "daemon socket %s: no answer within %v; check it with 'dibs doctor', or wait longer "+
		"with DIBS_TIMEOUT", d.path, d.timeout)
}

func (d *daemon) unreachable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fail(ErrUnavailable, "daemon socket %s: you may not use it; name another one with DIBS_SOCKET, or none "+
			"to use the ledger itself", d.path)
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number
	}
	advice := "remove that file"
	if d.isNamed {
		advice = "name another one"
	}
	return fail(ErrUnavailable, "daemon socket %s: no daemon answers: %v; start it with 'dibs serve', %s, or set "+
		"DIBS_SOCKET=none to use the ledger itself", d.path, err, advice)
}

// exchange is one request, repeated while that is safe.
type exchange struct {
	method string
	path   string
	query  url.Values
	body   interface{}
	header http.Header
	isOnce bool   // never sent again once the daemon may have read it
	order  *order // of a claim: nil for other requests
}

func (d *daemon) ask(ctx context.Context, e exchange, into interface{}) error {
	var body []byte
	if e.body != nil {
		var err error
		if body, err = json.Marshal(e.body); err != nil {
			return usage("%v", err)
		}
	}
	if e.order == nil {
		e.order = &order{}
	}
	for {
		retry, err := d.attempt(ctx, e, body, into)
		if retry < 0 || ctx.Err() != nil {
			return err
		}
		// A claim that nobody waits for is repeated only if the daemon may have made it.
		if e.order.isGivenUp.isSet() && !e.order.isSent.isSet() {
			return err
		}
		if e.order.isSent.isSet() {
			e.order.isRepeated.set()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retry):
		}
	}
}

// attempt sends the request once. retry < 0: the answer or the error is final; else the pause before the next
// attempt.
func (d *daemon) attempt(ctx context.Context, e exchange, body []byte, into interface{}) (
	retry time.Duration, err error) {
	target := "http://dibs" + e.path
	if len(e.query) > 0 {
		target += "?" + strings.ReplaceAll(e.query.Encode(), "+", "%20")
	}
	request, err := http.NewRequestWithContext(ctx, e.method, target, bytes.NewReader(body))
	if err != nil {
		return -1, usage("%v", err)
	}
	for key, values := range e.header {
		request.Header[key] = values
	}
	if e.method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := d.http.Do(request)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(response.Body, answerMax+1))
		response.Body.Close()
	}
	if err != nil {
		return d.lost(ctx, e, err)
	}
	e.order.isSent.set()
	atomic.StoreInt32(&d.isReached, 1)
	return d.understand(response, text, into)
}

// lost decides what follows a request without an answer.
func (d *daemon) lost(ctx context.Context, e exchange, err error) (time.Duration, error) {
	var operation *net.OpError
	isDialled := !errors.As(err, &operation) || operation.Op != "dial"
	if isDialled {
		e.order.isSent.set()
	}
	switch {
	case ctx.Err() != nil:
		return -1, ctx.Err()
	case errors.Is(err, fs.ErrPermission), !isDialled && atomic.LoadInt32(&d.isReached) == 0:
		return -1, d.unreachable(err)
	case isDialled && e.isOnce:
		return -1, fail(ErrUnavailable, "daemon socket %s: the connection was lost before the answer came, so that it "+
			"is not known whether it was done; check before you repeat it", d.path)
	}
	return pauseTime, d.unreachable(err)
}

func (d *daemon) understand(response *http.Response, text []byte, into interface{}) (time.Duration, error) {
	status := response.StatusCode
	strange := fail(ErrUnavailable, "daemon socket %s: its answer is not understood; is it of another version?", d.path)
	switch {
	case status == http.StatusRequestURITooLong, status == http.StatusRequestHeaderFieldsTooLarge:
		return -1, usage("a name, a directory or another text is too long for a request")
	case len(text) > answerMax:
		return -1, strange
	case status >= 200 && status < 300:
		if err := json.Unmarshal(text, into); err != nil {
			return -1, strange
		}
		return -1, nil
	}
	var problem struct {
		Detail  string   `json:"detail"`
		Code    Code     `json:"code"`
		Trouble string   `json:"trouble"`
		Blocker *Blocker `json:"blocker"`
	}
	if err := json.Unmarshal(text, &problem); err != nil || problem.Code == 0 {
		return -1, strange
	}
	err := &Error{Code: problem.Code, Message: problem.Detail, Trouble: problem.Trouble, Blocker: problem.Blocker}
	if status == http.StatusTooManyRequests {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if pause := time.Duration(seconds) * time.Second; pause > pauseTime && pause < d.timeout {
			return pause, err
		}
		return pauseTime, err
	}
	if status == http.StatusServiceUnavailable && problem.Trouble == "" {
		return pauseTime, err // it is stopping; the next one may answer
	}
	return -1, err
}

// ---- claims ----

var null = json.RawMessage("null")

// holder writes a holder; nil leaves it out.
func (h Holder) wire() json.RawMessage {
	switch {
	case h.kind == 'k':
		return null
	case h.kind == 'l' && h.ttl == 0:
		return json.RawMessage(`{"kind":"lease"}`)
	case h.kind == 'l':
		return json.RawMessage(fmt.Sprintf(`{"kind":"lease","ttl":"%s"}`, durationText(h.ttl)))
	}
	return json.RawMessage(fmt.Sprintf(`{"kind":"process","pid":%d}`, h.process()))
}

type wireBinding struct {
	Proto   string `json:"proto,omitempty"`
	Address string `json:"address,omitempty"`
}

type wireRequest struct {
	Name     string          `json:"name,omitempty"`
	Pool     string          `json:"pool,omitempty"`
	Ranges   string          `json:"ranges,omitempty"`
	Mode     Mode            `json:"mode,omitempty"`
	Port     uint16          `json:"port,omitempty"`
	Holder   json.RawMessage `json:"holder"`
	Keep     bool            `json:"keep,omitempty"`
	Lookup   bool            `json:"lookup,omitempty"`
	Hold     Hold            `json:"hold,omitempty"`
	Bindings []wireBinding   `json:"bindings,omitempty"`
}

type wireBatch struct {
	Requests   []wireRequest     `json:"requests"`
	Contiguous bool              `json:"contiguous,omitempty"`
	Align      int               `json:"align,omitempty"`
	DryRun     bool              `json:"dry_run,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`
}

type wireClaims struct {
	Claims []Claim `json:"claims"`
	Next   *uint64 `json:"next"`
}

func joinProtos(protos []Proto, separator string) string {
	words := make([]string, len(protos))
	for i, proto := range protos {
		words[i] = string(proto)
	}
	return strings.Join(words, separator)
}

func (o *order) bindings() []wireBinding {
	var out []wireBinding
	for _, address := range o.Addresses {
		out = append(out, wireBinding{joinProtos(o.Protos, ","), address})
	}
	if len(o.Addresses) == 0 && len(o.Protos) > 0 {
		out = append(out, wireBinding{Proto: joinProtos(o.Protos, ",")})
	}
	return out
}

func (d *daemon) claim(ctx context.Context, o *order) ([]Claim, error) {
	batch := wireBatch{Contiguous: o.Contiguous, Align: o.Align, DryRun: o.DryRun, Settings: d.settings}
	for _, name := range o.names {
		batch.Requests = append(batch.Requests, wireRequest{
			Name: name, Pool: o.Pool, Ranges: o.Range, Mode: o.mode(), Port: o.Port, Holder: o.Holder.wire(),
			Keep: o.Holder.kind == 'k', Lookup: o.isLookup, Hold: o.Hold, Bindings: o.bindings(),
		})
	}
	var got wireClaims
	e := exchange{
		method: http.MethodPost, path: "/v1/batch", body: batch,
		header: http.Header{"Idempotency-Key": {o.key}}, order: o,
	}
	if err := d.ask(ctx, e, &got); err != nil {
		return nil, err
	}
	if len(got.Claims) != len(o.names) {
		return nil, fail(ErrUnavailable, "daemon socket %s: %d claims instead of %d", d.path, len(got.Claims), len(o.names))
	}
	return got.Claims, nil
}

// at writes the path and the query of a claim.
func (w Which) at(verb string) (string, url.Values) {
	switch {
	case w.Token != "":
		return "/v1/claims/" + w.Token + verb, nil
	case w.Name != "":
		return "/v1/claims/-" + verb, url.Values{"name": {w.Name}}
	}
	return "/v1/claims/-" + verb, url.Values{"port": {strconv.Itoa(int(w.Port))}}
}

func (d *daemon) find(ctx context.Context, w Which) (claim Claim, err error) {
	path, query := w.at("")
	err = d.ask(ctx, exchange{method: http.MethodGet, path: path, query: query}, &claim)
	return claim, err
}

func (d *daemon) release(ctx context.Context, w Which, force bool) (int, error) {
	n, err := d.end(ctx, w, force)
	if err != nil || w.Token != "" || w.Name == "" {
		return n, err
	}
	members, err := d.members(ctx, w.Name)
	for i := 0; i < len(members) && err == nil; i++ {
		var more int
		more, err = d.end(ctx, Which{Name: members[i].Name}, force)
		n += more
	}
	return n, err
}

func (d *daemon) end(ctx context.Context, w Which, force bool) (int, error) {
	var got struct {
		Released int `json:"released"`
	}
	path, query := w.at("")
	if force {
		if query == nil {
			query = url.Values{}
		}
		query.Set("force", "true")
	}
	err := d.ask(ctx, exchange{method: http.MethodDelete, path: path, query: query}, &got)
	return got.Released, err
}

// members lists the caller's claims NAME/0, NAME/1, ... of a batch.
func (d *daemon) members(ctx context.Context, name string) ([]Claim, error) {
	principal, err := d.principal(ctx)
	if err != nil {
		return nil, err
	}
	var out []Claim
	filter := Filter{Prefix: name, Principal: principal}
	for after := uint64(0); ; {
		claims, next, err := d.page(ctx, filter, after)
		if err != nil {
			return nil, err
		}
		for _, claim := range claims {
			if isMember(claim.Name, name) {
				out = append(out, claim)
			}
		}
		if next == 0 {
			return out, nil
		}
		after = next
	}
}

// isMember reports whether a name is BATCH/NUMBER.
func isMember(name, batch string) bool {
	number := strings.TrimPrefix(name, batch+"/")
	return number != name && number != "" && strings.Trim(number, "0123456789") == ""
}

func (d *daemon) principal(ctx context.Context) (string, error) {
	d.mu.Lock()
	mine := d.mine
	d.mu.Unlock()
	if mine != "" {
		return mine, nil
	}
	var got struct {
		Principal string `json:"principal"`
	}
	err := d.ask(ctx, exchange{method: http.MethodGet, path: "/v1/daemon"}, &got)
	d.mu.Lock()
	d.mine = got.Principal
	d.mu.Unlock()
	return got.Principal, err
}

func (d *daemon) renew(ctx context.Context, w Which, ttl time.Duration) (claim Claim, err error) {
	if ttl == 0 { // the length that it had
		if claim, err = d.find(ctx, w); err != nil {
			return claim, err
		}
		if claim.Holder != nil && claim.Holder.TTLMS > 0 {
			ttl = time.Duration(claim.Holder.TTLMS) * time.Millisecond
		}
	}
	var body interface{} // nothing: the length of the settings
	if ttl != 0 {
		body = map[string]string{"ttl": durationText(ttl)}
	}
	path, query := w.at("/renew")
	err = d.ask(ctx, exchange{method: http.MethodPost, path: path, query: query, body: body}, &claim)
	return claim, err
}

func (d *daemon) transfer(ctx context.Context, w Which, to Holder) (claim Claim, err error) {
	body := struct {
		Holder json.RawMessage `json:"holder"`
		Keep   bool            `json:"keep,omitempty"`
	}{to.wire(), to.kind == 'k'}
	path, query := w.at("/transfer")
	err = d.ask(ctx, exchange{method: http.MethodPost, path: path, query: query, body: body, isOnce: true}, &claim)
	return claim, err
}

func (d *daemon) assert(ctx context.Context, w Which) (socket Socket, err error) {
	path, query := w.at("/assert")
	err = d.ask(ctx, exchange{method: http.MethodGet, path: path, query: query}, &socket)
	return socket, err
}

// ---- the rest ----

// withSettings adds the caller's settings to a query.
func (d *daemon) withSettings(query url.Values) url.Values {
	if len(d.settings) > 0 {
		text, _ := json.Marshal(d.settings)
		query.Set("settings", string(text))
	}
	return query
}

func (d *daemon) explain(ctx context.Context, port uint16, q Question) (report Report, err error) {
	query := d.withSettings(url.Values{})
	protos, addresses := q.Protos, q.Addresses
	if len(protos) == 0 {
		protos = []Proto{TCP}
	}
	if len(addresses) == 0 {
		addresses = []string{"*"}
	}
	for _, address := range addresses {
		for _, proto := range protos {
			query.Add("binding", string(proto)+"/"+address)
		}
	}
	if q.Pool != "" {
		query.Set("pool", q.Pool)
	}
	path := "/v1/ports/" + url.PathEscape(string(protos[0])) + "/" + strconv.Itoa(int(port))
	err = d.ask(ctx, exchange{method: http.MethodGet, path: path, query: query}, &report)
	return report, err
}

func (d *daemon) page(ctx context.Context, f Filter, after uint64) ([]Claim, uint64, error) {
	query := url.Values{"judge": {"true"}}
	for key, value := range map[string]string{
		"prefix": f.Prefix, "project": f.Project, "pool": f.Pool, "principal": f.Principal, "proto": string(f.Proto),
	} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if f.Port != 0 {
		query.Set("port", strconv.Itoa(int(f.Port)))
	}
	if after != 0 {
		query.Set("after", strconv.FormatUint(after, 10))
	}
	var got wireClaims
	err := d.ask(ctx, exchange{method: http.MethodGet, path: "/v1/claims", query: query}, &got)
	if err != nil || got.Next == nil {
		return got.Claims, 0, err
	}
	return got.Claims, *got.Next, nil
}

func (d *daemon) pools(ctx context.Context) ([]Pool, error) {
	var got struct {
		Pools []Pool `json:"pools"`
	}
	e := exchange{method: http.MethodGet, path: "/v1/pools", query: d.withSettings(url.Values{})}
	if err := d.ask(ctx, e, &got); err != nil {
		return nil, err
	}
	for i := range got.Pools {
		e.path = "/v1/pools/" + url.PathEscape(got.Pools[i].Name) + "/usage"
		if err := d.ask(ctx, e, &got.Pools[i].Usage); err != nil {
			return nil, err
		}
	}
	return got.Pools, nil
}

type wireEvents struct {
	Events []Event `json:"events"`
	Seq    uint64  `json:"seq"`
	Oldest uint64  `json:"oldest"`
}

const eventWait = 20 * time.Second // at most 60; then the next request begins

// events returns the events after a number; the daemon may wait for one, at most eventWait. It would also wait
// for a number that it has not reached, because the ledger was replaced.
func (d *daemon) events(ctx context.Context, since uint64, mayWait bool) ([]Event, error) {
	query := url.Values{"since": {strconv.FormatUint(since, 10)}}
	if mayWait {
		query.Set("wait", durationText(eventWait))
	}
	ctx, cancel := context.WithTimeout(ctx, eventWait+d.timeout)
	defer cancel()
	var got wireEvents
	err := d.ask(ctx, exchange{method: http.MethodGet, path: "/v1/events", query: query}, &got)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, d.tooLate()
	}
	if err != nil {
		return nil, err
	}
	if since > 0 && (got.Oldest > since+1 || got.Seq < since) {
		return nil, ErrMissed
	}
	return got.Events, nil
}

func (d *daemon) newest(ctx context.Context) (uint64, error) {
	query := url.Values{"limit": {"1"}, "newest": {"true"}}
	var got wireEvents
	err := d.ask(ctx, exchange{method: http.MethodGet, path: "/v1/events", query: query}, &got)
	return got.Seq, err
}
