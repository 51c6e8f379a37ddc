package projection

import (
	"encoding/json"
	"unicode/utf8"

	"durafs/internal/jsonscan"
)

// ForeignCall is what a row of another program's log tells of a tool call.
type ForeignCall struct {
	ID      string
	Outcome bool
	// Of a claim: the tool, and the arguments as JSON.
	Name      string
	Arguments []byte
	// Of an outcome: the result in its own shape, for Foreign.
	Result []byte
}

// ForeignCalls are the tool calls and results in a row that an agent logged, in
// order: a message, an event with a message in it, or a dialogue of messages,
// in the shapes of chat completions, of messages with content blocks, of
// response items, and of steps with an action and an observation. A row of any
// other shape has none.
func ForeignCalls(row []byte) []ForeignCall {
	if !utf8.Valid(row) || !jsonscan.Valid(row, ArgumentsDepthMax) {
		return nil
	}
	var m foreignMessage
	if json.Unmarshal(row, &m) != nil {
		return nil
	}
	return m.calls(0)
}

// foreignMessage has what the shapes have in common: each has only some of it.
type foreignMessage struct {
	Type       string          `json:"type"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	IsError    bool            `json:"isError"`
	ToolCalls  []chatCall      `json:"tool_calls"`
	ToolCallID str             `json:"tool_call_id"`
	CallID2    str             `json:"toolCallId"`

	// A response item.
	CallID    str             `json:"call_id"`
	Name      str             `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Output    json.RawMessage `json:"output"`

	// A step.
	Action      json.RawMessage `json:"action"`
	Observation json.RawMessage `json:"observation"`

	Message  json.RawMessage   `json:"message"`
	Payload  json.RawMessage   `json:"payload"`
	Messages []json.RawMessage `json:"messages"`
}

type chatCall struct {
	ID       str `json:"id"`
	Function struct {
		Name      str             `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	ID        str             `json:"id"`
	Name      str             `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	ToolUseID str             `json:"tool_use_id"`
}

// nestedMax bounds how deep messages stand in one another.
const nestedMax = 4

func (m *foreignMessage) calls(depth int) (list []ForeignCall) {
	switch {
	case m.Type == "function_call" && m.CallID != "":
		return []ForeignCall{claimed(m.CallID, m.Name, m.Arguments)}
	case m.Type == "function_call_output" && m.CallID != "":
		return []ForeignCall{result(m.CallID, m.Output)}
	case m.Role == "tool" && m.ToolCallID != "":
		return []ForeignCall{result(m.ToolCallID, m.Content)}
	case m.Role == "toolResult" && m.CallID2 != "":
		return []ForeignCall{result(m.CallID2, withError(m.Content, m.IsError))}
	case isString(m.Action) && isString(m.Observation):
		return []ForeignCall{claimed("step", "action", m.Action), result("step", m.Observation)}
	}
	for _, c := range m.ToolCalls {
		list = append(list, claimed(c.ID, c.Function.Name, c.Function.Arguments))
	}
	list = append(list, m.blocks()...)
	if depth == nestedMax {
		return list
	}
	for _, raw := range append([]json.RawMessage{m.Message, m.Payload}, m.Messages...) {
		var inner foreignMessage
		if len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &inner) == nil {
			list = append(list, inner.calls(depth+1)...)
		}
	}
	return list
}

// blocks are the calls and results among a message's content.
func (m *foreignMessage) blocks() (list []ForeignCall) {
	var raw []json.RawMessage
	if len(m.Content) == 0 || m.Content[0] != '[' || json.Unmarshal(m.Content, &raw) != nil {
		return nil
	}
	for _, r := range raw {
		var b contentBlock
		if len(r) == 0 || r[0] != '{' || json.Unmarshal(r, &b) != nil {
			continue
		}
		switch {
		case b.Type == "toolCall" && b.ID != "":
			list = append(list, claimed(b.ID, b.Name, b.Arguments))
		case b.Type == "tool_use" && b.ID != "":
			list = append(list, claimed(b.ID, b.Name, b.Input))
		case b.Type == "tool_result" && b.ToolUseID != "":
			list = append(list, result(b.ToolUseID, r))
		}
	}
	return list
}

// claimed is a call. Arguments that are JSON in a string are that JSON.
func claimed(id, name str, args json.RawMessage) ForeignCall {
	c := ForeignCall{ID: string(id), Name: string(name), Arguments: args}
	if isString(args) {
		if said := []byte(saidBy(args)); utf8.Valid(said) && jsonscan.Valid(said, ArgumentsDepthMax) {
			c.Arguments = said
		}
	}
	return c
}

func result(id str, value json.RawMessage) ForeignCall {
	if isNull(value) {
		value = json.RawMessage(`""`)
	}
	return ForeignCall{ID: string(id), Outcome: true, Result: value}
}

// withError keeps what stood beside the content.
func withError(content json.RawMessage, isError bool) json.RawMessage {
	if !isError || isNull(content) {
		return content
	}
	b := append([]byte(`{"isError":true,"content":`), content...)
	return append(b, '}')
}

func isString(b []byte) bool { return len(b) > 0 && b[0] == '"' }
