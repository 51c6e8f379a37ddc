package runs

import "durafs/cas"

// References lists the payloads that a batch refers to and that are not inline
// in it. payload is that of the batch's frame. It is for whoever checks a log
// without opening it.
func References(payload []byte) ([]cas.Ref, error) {
	b, err := decodeBatch(payload)
	if err != nil {
		return nil, err
	}
	var refs []cas.Ref
	for _, e := range b.entries {
		if e.kind != kindPayload {
			continue
		}
		p, err := parsePayload(e)
		if err != nil {
			return nil, err
		}
		if p.ref.Hint != (cas.Hint{}) {
			refs = append(refs, p.ref)
		}
	}
	return refs, nil
}
