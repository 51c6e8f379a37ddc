package daemon

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"durafs/internal/term"
	"durafs/runs"
	"durafs/store"
)

// Status is what GET /v1/status answers: the daemon, and the state of its
// store. (The server puts the API's number in front.)
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	UptimeMS  int64     `json:"uptime_ms"`
	Socket    string    `json:"socket"`
	Agents    string    `json:"agent_socket"`
	Mount     string    `json:"mount,omitempty"`
	store.Status
}

// Status tells the state now.
func (d *Daemon) Status() Status { return d.now().status() }

func (l *life) status() Status {
	d := l.d
	return Status{
		Version:   d.config.Version,
		PID:       os.Getpid(),
		StartedAt: d.started,
		UptimeMS:  (d.clock.Boot() - d.opened).Milliseconds(),
		Socket:    d.config.Socket,
		Agents:    AgentSocket(d.config.Socket),
		Mount:     *d.mountDir.Load(),
		Status:    l.store.Status(),
	}
}

// Well reports whether the store takes writes.
func (s *Status) Well() bool { return s.Health == "ok" }

// WriteText writes the status for people; the mount's file status is the same.
func (s *Status) WriteText(w io.Writer) error {
	lines := [][2]string{
		{"health", s.Health},
		{"store", fmt.Sprintf("%s (%s, format %d)", s.Store, s.StoreID, s.FormatVersion)},
		{"socket", s.Socket},
		{"mount", orNone(s.Mount)},
		{"daemon", fmt.Sprintf("durafs %s, process %d, up %s, boot %s", s.Version, s.PID, term.Age(time.Duration(s.UptimeMS)*time.Millisecond), s.BootID)},
		{"runs", runsText(s.Runs)},
		{"log", fmt.Sprintf("durable up to LSN %d, %s, %s", s.Log.DurableLSN, term.Count(s.Log.Segments, "segment"), term.Bytes(s.Log.Bytes))},
		{"payloads", fmt.Sprintf("%s, %s", term.Count(s.Chunks.Packs, "pack"), term.Bytes(s.Chunks.Bytes))},
		{"usage", usageText(s.Usage)},
		{"damage", damageText(s.Damage, s.Recovery)},
		{"outbox", outboxText(s.Outbox)},
		{"space", spaceText(s.Space)},
		{"policy", PolicyText(s.Policy)},
		{"recovery", RecoveryText(s.Recovery)},
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-9s %s\n", l[0], term.Safe(l[1])); err != nil {
			return err
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func runsText(runs map[string]int) string {
	total, parts := 0, []string(nil)
	for _, phase := range slices.Sorted(maps.Keys(runs)) {
		if n := runs[phase]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, phase))
		}
	}
	if total == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(parts, ", "))
}

// outboxText says what sinks have not taken yet.
func outboxText(o store.OutboxStatus) string {
	if o == (store.OutboxStatus{}) {
		return "empty"
	}
	return fmt.Sprintf("%s waiting, %d parked", count(uint64(o.Waiting), "delivery", "deliveries"), o.Parked)
}

// damageText says what is lost, as far as it is known.
func damageText(d store.DamageStatus, r store.Recovery) string {
	if d.Runs == 0 && r.LostCount == 0 {
		return "none is known"
	}
	text := term.Count(d.Runs, "run") + " damaged"
	if len(d.IDs) > 0 {
		text += ": " + strings.Join(d.IDs[:min(len(d.IDs), damagedShownMax)], ", ")
		if len(d.IDs) > damagedShownMax {
			text += ", …"
		}
	}
	if d.Unnamed > 0 {
		text += fmt.Sprintf("; of %d the start is lost, and with it the id", d.Unnamed)
	}
	if d.AnyRun {
		text += "; something is lost that may have been of any run that was not over"
	}
	for i, l := range r.Lost {
		if i == damagedShownMax {
			text += "; …"
			break
		}
		text += fmt.Sprintf("; %s offset %d, LSN %d to %d (%s)", l.File, l.Offset, l.LSNFrom, l.LSNTo, l.Reason)
	}
	return text
}

// PolicyText says the policy, and that it is not carried out yet.
func PolicyText(p runs.PolicyState) string {
	if p.RetainAll {
		return p.String()
	}
	return p.String() + "; no log gives way yet, see durafs policy --dry-run"
}

// damagedShownMax bounds what one line of the status tells of damage.
const damagedShownMax = 5

func spaceText(s store.SpaceStatus) string {
	text := fmt.Sprintf("%s of %s free on %s", term.Bytes(s.FreeBytes), term.Bytes(s.SizeBytes), s.Mount)
	if s.FreeInodes >= 0 {
		text += fmt.Sprintf(", %d inodes", s.FreeInodes)
	}
	if s.Short {
		text += "; too little: starts, rows and payloads are refused until there is more"
	}
	return text
}

// usageText says what the runs count for, and the bounds that are set.
func usageText(u runs.Usage) string {
	text := term.Bytes(u.Bytes)
	if u.StoreBytesMax > 0 {
		text += " of " + term.Bytes(u.StoreBytesMax)
		if u.Bytes >= u.StoreBytesMax {
			text += "; starts, rows, calls and payloads are refused until payloads are deleted"
		}
	}
	if u.RunBytesMax > 0 {
		text += ", at most " + term.Bytes(u.RunBytesMax) + " a run"
	}
	return text
}

// RecoveryText tells in a line what opening the store found and did.
func RecoveryText(r store.Recovery) string {
	if r.Created {
		return "a new store"
	}
	text := fmt.Sprintf("read %s (%s) in %s", count(r.Batches, "batch", "batches"), term.Bytes(r.Bytes),
		term.Lasted(time.Duration(r.TookMS)*time.Millisecond))
	for _, c := range r.Cut {
		text += fmt.Sprintf("; cut %s at offset %d (%s)", c.File, c.Offset, c.Reason)
	}
	if len(r.Cut) == 0 {
		text += "; nothing was cut"
	}
	if r.Interrupted > 0 {
		text += fmt.Sprintf("; %s interrupted", term.Count(r.Interrupted, "run"))
	}
	if r.Settled > 0 {
		text += fmt.Sprintf("; %s finished", term.Count(r.Settled, "settlement"))
	}
	return text
}

func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
