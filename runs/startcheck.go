package runs

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

func checkStart(r *StartRequest) error {
	if r.ID != "" {
		if _, err := ParseID(r.ID); err != nil {
			return err
		}
	}
	if r.Parent != "" {
		if _, err := ParseID(r.Parent); err != nil {
			p := refuse(BadID, "%s, given as parent, is no run id", quote(r.Parent))
			p.Field = "parent"
			return p
		}
	}
	if err := checkLabels(r.Labels); err != nil {
		return err
	}
	if err := checkBinding(r.Binding); err != nil {
		return err
	}
	if err := checkLease(&r.Lease); err != nil {
		return err
	}
	if r.Lock != "" {
		if err := badName("lock", r.Lock, goodName(r.Lock)); err != nil {
			return err
		}
	}
	r.LockWait = min(r.LockWait, LockWaitMax)
	if r.Target == "" {
		r.Target = targetMaster
	}
	target, err := ParseTarget(r.Target)
	if err != nil {
		return err
	}
	r.Target = target
	if r.IdempotencyKey != "" {
		if err := badName("Idempotency-Key", r.IdempotencyKey, badKey(r.IdempotencyKey)); err != nil {
			return err
		}
	}
	return checkMessage(r.Message)
}

func checkLease(lease *time.Duration) error {
	if *lease < 0 {
		*lease = LeaseDefault
	}
	if *lease > LeaseMax || *lease%time.Millisecond != 0 {
		r := refuse(BadLease, "the lease is %s", *lease)
		r.Field, r.Limit, r.Size = "lease_ms", LeaseMax.Milliseconds(), lease.Milliseconds()
		return r
	}
	return nil
}

// badKey is the rule for idempotency keys, and other labels of requests: text
// of 1 to 255 bytes.
func badKey(k string) string {
	if k == "" || len(k) > NameBytesMax {
		return "is empty, or longer than 255 bytes"
	}
	for _, r := range k {
		if r < 0x20 || r == 0x7f || r == utf8.RuneError {
			return "holds a control character, or is not valid UTF-8"
		}
	}
	return ""
}

func checkMessage(m json.RawMessage) error {
	if len(m) > MessageBytesMax {
		return tooLarge("message", int64(len(m)), MessageBytesMax)
	}
	if m != nil && (!json.Valid(m) || !utf8.Valid(m)) {
		r := refuse(RowInvalid, "the message is not valid JSON")
		r.Field = "message"
		return r
	}
	return nil
}
