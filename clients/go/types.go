// SPDX-License-Identifier: MIT

package dibs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Proto is a protocol.
type Proto string

const (
	TCP  Proto = "tcp"
	UDP  Proto = "udp"
	SCTP Proto = "sctp"
)

// Mode says what the port of a request means.
type Mode string

const (
	Required  Mode = "required"  // this port or an error; the default when a port is given
	Preferred Mode = "preferred" // this port if it can be had, else another
	Declared  Mode = "declared"  // record that the caller uses this port: never an error, not exclusive
)

// Hold is a level of holding: what the kernel does so that a claimed port stays its owner's.
type Hold string

const (
	HoldAuto    Hold = ""        // enforce where the daemon offers it, else none
	HoldNone    Hold = "none"    // the ledger alone
	HoldGuard   Hold = "guard"   // a bound socket that is never used
	HoldFD      Hold = "fd"      // the listening socket itself
	HoldEnforce Hold = "enforce" // the kernel refuses every bind of others
)

// Holder says what holds a claim, and thereby when it ends. The zero value is this process.
type Holder struct {
	kind byte // 0: a process, 'l': a lease, 'k': kept
	pid  int  // 0: this process
	ttl  time.Duration
}

// Process makes a process the holder; the claim ends with it.
func Process(pid int) Holder { return Holder{pid: pid} }

// Lease makes a lease the holder. When the time is over, the claim lives on while a socket of the user is
// bound to the port. 0 is the length of the settings (10m).
func Lease(ttl time.Duration) Holder { return Holder{kind: 'l', ttl: ttl} }

// Keep makes a claim that stays until it is released, without a holder.
func Keep() Holder { return Holder{kind: 'k'} }

func (h Holder) process() int {
	if h.pid == 0 {
		return os.Getpid()
	}
	return h.pid
}

// Request is a wanted claim. Its zero value is an unnamed port that dibs chooses from the default pool, TCP on
// every address, held by this process.
type Request struct {
	// Name: "/shop/web" is absolute. "web" belongs to the project of Options.Dir, or to Options.Group. The
	// same name gets the same port again. Empty: no name.
	Name      string
	Port      uint16        // 0: dibs chooses
	Mode      Mode          // what Port means; empty: Required
	Pool      string        // to choose from; empty: the default
	Range     string        // instead of a pool: "8000-8099,9000"
	Protos    []Proto       // one number for all of them; nil: TCP
	Addresses []string      // to be bound; nil: "*", every address of both families
	Holder    Holder        // the zero value is this process
	Hold      Hold          // how the kernel is to hold it
	Wait      time.Duration // try again for so long while the port, the name or the pool is in use
}

func (r *Request) mode() Mode {
	if r.Port != 0 && r.Mode == "" {
		return Required
	}
	return r.Mode
}

// Batch is several claims: all of them are made, or none.
type Batch struct {
	Request             // what the claims have in common
	Names      []string // a claim for each; then neither Name nor Count may be set
	Count      int      // this many claims; with Name they are NAME/0, NAME/1, ...
	Contiguous bool     // the ports follow each other
	Align      int      // with Contiguous: the first port is a multiple of it
	DryRun     bool     // decide, and reserve nothing
}

// Which selects one claim of the caller: by its token, its name, or its port. The first of these that is set
// counts. A token means exactly one claim; a name may have a later claim meanwhile.
type Which struct {
	Token string
	Name  string
	Port  uint16
}

// Claim is a claim as dibs reports it.
type Claim struct {
	ID         uint64    `json:"id"` // 0: of a dry run
	Generation uint64    `json:"generation"`
	Port       uint16    `json:"port"`
	Kind       string    `json:"kind"`      // static: the number was asked for; dynamic: dibs chose it
	Exclusive  bool      `json:"exclusive"` // false: declared
	Kept       bool      `json:"kept"`
	Holder     *HeldBy   `json:"holder"`    // nil: nobody
	Principal  string    `json:"principal"` // whose it is: "uid:1000"
	Node       string    `json:"node"`      // in a cluster: its host
	UID        uint32    `json:"uid"`
	Name       string    `json:"name"` // absolute, without the leading slash; empty: none
	Pool       string    `json:"pool"`
	Project    string    `json:"project"` // directory that the name belongs to
	Command    string    `json:"command"`
	Hold       Hold      `json:"hold"`
	HoldNote   string    `json:"hold_note"` // why an automatic level could not be had
	As         uint16    `json:"as"`        // the number by which the processes of `dibs run --as` know it
	Bindings   []Binding `json:"bindings"`
	CreatedMS  int64     `json:"created_ms"` // wall clock, as ChangedMS
	ChangedMS  int64     `json:"changed_ms"`
	Life       Life      `json:"life"`      // of the holder, when it was judged
	Orphan     bool      `json:"orphan"`    // the holder is dead, but its socket is still bound
	WasThere   bool      `json:"was_there"` // the name had this claim already
	WasKept    bool      `json:"was_kept"`
	Degraded   bool      `json:"degraded"` // given without the ledger, which could not be opened
	Narrowed   bool      `json:"narrowed"` // this host has no IPv6: the wildcard became IPv4 alone
	Damaged    bool      `json:"damaged"`
	Token      string    `json:"token"` // says which claim; empty in listings
}

// Life is what is known of a holder.
type Life string

const (
	Alive   Life = "alive"
	Dead    Life = "dead"
	Unknown Life = "unknown"
)

// HeldBy is the holder of a claim.
type HeldBy struct {
	Kind         string `json:"kind"` // process or lease
	PID          int    `json:"pid"`
	StartTicks   uint64 `json:"start_ticks"`
	PIDNamespace uint64 `json:"pid_namespace"`
	BootID       string `json:"boot_id"`
	TTLMS        int64  `json:"ttl_ms"`
	UntilBootMS  int64  `json:"until_boot_ms"`
}

// Binding is a protocol, an address and a port. The address "*" is every address of both families.
type Binding struct {
	Proto   Proto  `json:"proto"`
	Address string `json:"address"`
	Port    uint16 `json:"port"`
}

// Which selects this claim: by its token, else by its name, else by its port.
func (c *Claim) Which() Which {
	w := Which{Token: c.Token, Port: c.Port}
	if c.Name != "" {
		w.Name = "/" + c.Name
	}
	return w
}

// selector selects what this call has made, and nothing later.
func (c *Claim) selector() Which {
	if c.Token == "" { // given without the ledger: its port alone releases it
		return Which{Port: c.Port}
	}
	return Which{Token: c.Token}
}

// UnmarshalJSON also reads paths and commands that are not UTF-8.
func (c *Claim) UnmarshalJSON(data []byte) error {
	type plain Claim
	return unmarshal(data, (*plain)(c), map[string]*string{"project": &c.Project, "command": &c.Command})
}

// Socket is a socket that uses a port.
type Socket struct {
	Proto     Proto  `json:"proto"`
	Address   string `json:"address"`
	Port      uint16 `json:"port"`
	UID       uint32 `json:"uid"`
	PID       int    `json:"pid"` // 0: unknown
	Inode     uint64 `json:"inode"`
	Command   string `json:"command"`
	Arguments string `json:"arguments"` // for its user and administrators
	Unit      string `json:"unit"`
	Directory string `json:"directory"`
	Holders   bool   `json:"holders"` // the claim's own holder has it
	Below     bool   `json:"below"`   // a process below the holder has it
	Serves    bool   `json:"serves"`  // it listens, or takes datagrams
}

// UnmarshalJSON also reads texts that are not UTF-8.
func (s *Socket) UnmarshalJSON(data []byte) error {
	type plain Socket
	return unmarshal(data, (*plain)(s), map[string]*string{"command": &s.Command, "arguments": &s.Arguments,
		"unit": &s.Unit, "directory": &s.Directory})
}

// Report explains why a port can be claimed or not.
type Report struct {
	Port      uint16    `json:"port"`
	CanClaim  bool      `json:"can_claim"`  // by number, now
	CanChoose bool      `json:"can_choose"` // by dynamic choice
	Verdict   string    `json:"verdict"`
	Reasons   []Reason  `json:"reasons"`
	Claims    []Claim   `json:"claims"`
	Sockets   []Socket  `json:"sockets"`
	NAT       []NATRule `json:"nat"` // rules that send the port's packets elsewhere
	Cut       bool      `json:"cut"` // there is more than the report has
}

// Reason is one line of a report.
type Reason struct {
	Kind          string `json:"kind"` // claimed, foreign, cooling, ephemeral, ...
	BlocksStatic  bool   `json:"blocks_static"`
	BlocksDynamic bool   `json:"blocks_dynamic"`
	Text          string `json:"text"`
	Advice        string `json:"advice"`
}

// NATRule is a rule of the kernel that publishes a port without a socket.
type NATRule struct {
	Binding
	Text string `json:"text"`
}

// Pool is a named set of port ranges.
type Pool struct {
	Name       string `json:"name"`
	Ranges     string `json:"ranges"`
	Scope      string `json:"scope"` // host or cluster
	Band       string `json:"band"`
	Order      string `json:"order"`
	CooldownMS int64  `json:"cooldown_ms"`
	Usage      Usage  `json:"usage"`
}

// Usage counts the ports of a pool.
type Usage struct {
	Size      int `json:"size"`
	Band      int `json:"band"`      // of the static band
	Static    int `json:"static"`    // with a static claim
	Dynamic   int `json:"dynamic"`   // with a dynamic claim
	Available int `json:"available"` // that a dynamic claim may still get
	Withheld  int `json:"withheld"`  // ephemeral, reserved, or blocked by browsers
}

// Event is one change of the ledger.
type Event struct {
	Seq        uint64  `json:"seq"`
	TimeMS     int64   `json:"time_ms"` // wall clock
	What       string  `json:"what"`    // claimed, released, renewed, transferred, reaped, ...
	Claim      uint64  `json:"claim"`
	Generation uint64  `json:"generation"`
	Port       uint16  `json:"port"`
	Protos     []Proto `json:"protos"`
	Kind       string  `json:"kind"`
	Principal  string  `json:"principal"`
	Name       string  `json:"name"`
	ActorUID   uint32  `json:"actor_uid"`
	ActorPID   int     `json:"actor_pid"`
}

// Change is what Up or Down did to a claim of the manifest.
type Change struct {
	What         string // keep, add, move, drop or stay
	NeedsRestart bool   // a process that runs still uses the old port or environment
	Claim        Claim
}

// UnmarshalJSON reads the claim and the members that are not of the claim, which are one object.
func (c *Change) UnmarshalJSON(data []byte) error {
	var own struct {
		What         string `json:"change"`
		NeedsRestart bool   `json:"needs_restart"`
	}
	if err := json.Unmarshal(data, &own); err != nil {
		return err
	}
	c.What, c.NeedsRestart = own.What, own.NeedsRestart
	return json.Unmarshal(data, &c.Claim)
}

// unmarshal reads an object whose texts may be in KEY_base64, because JSON has no bytes.
func unmarshal(data []byte, into interface{}, texts map[string]*string) error {
	if err := json.Unmarshal(data, into); err != nil || !bytes.Contains(data, []byte(`_base64"`)) {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for key, text := range texts {
		var coded string
		if err := json.Unmarshal(members[key+"_base64"], &coded); err != nil {
			continue // absent
		}
		raw, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			return fmt.Errorf("%s_base64: %w", key, err)
		}
		*text = string(raw)
	}
	return nil
}

// durationText writes a time as dibs reads it, in milliseconds, never shorter than asked for.
func durationText(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10) + "ms"
}
