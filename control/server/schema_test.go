package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schema is the part of JSON Schema that the description uses.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"` // a name, or several
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Extra       any                `json:"additionalProperties"` // a boolean or a schema
	Items       *schema            `json:"items"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Pattern     string             `json:"pattern"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	Description string             `json:"description"`
}

// validator checks values against schemas; all are the named ones.
type validator struct{ all map[string]*schema }

// check says what is wrong with v, a decoded JSON value; at names the place.
func (x validator) check(s *schema, v any, at string) error {
	if s.Ref != "" {
		named := x.all[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if named == nil {
			return fmt.Errorf("%s: no schema %s", at, s.Ref)
		}
		return x.check(named, v, at)
	}
	if err := s.checkKind(v, at); err != nil {
		return err
	}
	switch v := v.(type) {
	case map[string]any:
		return x.checkObject(s, v, at)
	case []any:
		for i, e := range v {
			if s.Items == nil {
				break
			}
			if err := x.check(s.Items, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *schema) checkKind(v any, at string) error {
	if s.Type != nil && !s.hasType(v) {
		return fmt.Errorf("%s: %v is not of type %v", at, v, s.Type)
	}
	if s.Const != nil && s.Const != v {
		return fmt.Errorf("%s: %v is not %v", at, v, s.Const)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %v is not one of %v", at, v, s.Enum)
	}
	if text, ok := v.(string); ok && s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text) {
		return fmt.Errorf("%s: %q does not match %s", at, text, s.Pattern)
	}
	if n, ok := v.(float64); ok && (s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum) {
		return fmt.Errorf("%s: %v is out of bounds", at, n)
	}
	return nil
}

func (s *schema) hasType(v any) bool {
	var kinds []string
	switch v := v.(type) {
	case nil:
		kinds = []string{"null"}
	case bool:
		kinds = []string{"boolean"}
	case string:
		kinds = []string{"string"}
	case float64:
		kinds = []string{"number"}
		if v == float64(int64(v)) {
			kinds = append(kinds, "integer")
		}
	case []any:
		kinds = []string{"array"}
	case map[string]any:
		kinds = []string{"object"}
	}
	switch want := s.Type.(type) {
	case string:
		return slices.Contains(kinds, want)
	case []any:
		return slices.ContainsFunc(want, func(w any) bool { return slices.Contains(kinds, w.(string)) })
	}
	return false
}

func (x validator) checkObject(s *schema, v map[string]any, at string) error {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s: no %s", at, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p := s.Properties[name]
		if p == nil {
			switch extra := s.Extra.(type) {
			case bool:
				if !extra {
					return fmt.Errorf("%s: %s is not described", at, name)
				}
				continue
			case map[string]any:
				b, _ := json.Marshal(extra)
				p = new(schema)
				if err := json.Unmarshal(b, p); err != nil {
					return err
				}
			default:
				continue
			}
		}
		if err := x.check(p, v[name], at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func TestValidator(t *testing.T) {
	var s schema
	if err := json.Unmarshal([]byte(`{"type":"object","properties":{
		"a":{"type":"string","pattern":"^x+$"},"n":{"type":"integer","minimum":1},"e":{"enum":["p","q"]},"c":{"const":true},
		"l":{"type":["array","null"],"items":{"$ref":"#/components/schemas/S"}},"m":{"type":"object","additionalProperties":{"type":"string"}}},
		"required":["a"],"additionalProperties":false}`), &s); err != nil {
		t.Fatal(err)
	}
	x := validator{map[string]*schema{"S": {Type: "boolean"}}}
	for in, ok := range map[string]bool{
		`{"a":"xx","n":1,"e":"q","c":true,"l":[true],"m":{"k":"v"}}`: true,
		`{"a":"xx","l":null}`:   true,
		`{}`:                    false,
		`[]`:                    false,
		`{"a":"y"}`:             false,
		`{"a":1}`:               false,
		`{"a":"x","n":0}`:       false,
		`{"a":"x","n":1.5}`:     false,
		`{"a":"x","e":"r"}`:     false,
		`{"a":"x","c":false}`:   false,
		`{"a":"x","l":[1]}`:     false,
		`{"a":"x","l":{}}`:      false,
		`{"a":"x","m":{"k":1}}`: false,
		`{"a":"x","other":1}`:   false,
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		if err := x.check(&s, v, "v"); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
}
