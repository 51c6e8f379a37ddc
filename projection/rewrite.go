package projection

// Rewrite makes of a durable projection of the run from the one that a copy of
// the run has, and calls visit, if there is one, with each reference as it was,
// in order: collecting references and rewriting them is one walk, so that none
// is rewritten without its artifact, and none copied that nothing refers to.
//
// It fails, with a *Refusal, on what is not the durable form of a projection of
// from, or has a reference that cannot become one of to. What was a projection
// of one run fits under every id: see RunBytesMax.
func Rewrite(b []byte, from, to string, visit func(Ref) error) ([]byte, error) {
	if r := fits(nil, 0, to); r != nil {
		return nil, r
	}
	p, err := Decode(b, from)
	if err != nil {
		return nil, err
	}
	if p.Code != "" {
		return []byte(Sentinel), nil
	}
	for i, part := range p.Parts {
		im, ok := part.(Image)
		if !ok {
			continue
		}
		if visit != nil {
			if err := visit(im.Ref); err != nil {
				return nil, err
			}
		}
		im.Ref.Run = to
		p.Parts[i] = im
	}
	return Encode(p, to)
}

// Refs are the references of a projection, in order.
func (p Projection) Refs() (list []Ref) {
	for _, part := range p.Parts {
		if im, ok := part.(Image); ok {
			list = append(list, im.Ref)
		}
	}
	return list
}
