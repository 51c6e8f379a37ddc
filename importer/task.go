package importer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// message is as much of the common shapes of messages as names the task.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	// Message and Payload hold the message in many agents' lines.
	Message  *message  `json:"message"`
	Payload  *message  `json:"payload"`
	Messages []message `json:"messages"`
	// Display is a dialogue as one text, each turn behind its role.
	Display string `json:"messages_display"`
}

// taskOf is what the user asks for in a row, "" if that is not in it.
func taskOf(row []byte) string {
	var m message
	if json.Unmarshal(row, &m) != nil {
		return "" // of another shape
	}
	return m.task()
}

func (m *message) task() string {
	if m == nil {
		return ""
	}
	if m.Role == "user" {
		return clip(textOf(m.Content))
	}
	if turn, ok := strings.CutPrefix(m.Display, "user: "); ok {
		turn, _, _ = strings.Cut(turn, "\nassistant: ")
		return clip(turn)
	}
	for i := range m.Messages {
		if text := m.Messages[i].task(); text != "" {
			return text
		}
	}
	if text := m.Message.task(); text != "" {
		return text
	}
	return m.Payload.task()
}

// textOf is a message's text: a string, or parts of which some are text.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func clip(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= TaskBytesMax {
		return text
	}
	text = text[:TaskBytesMax]
	for len(text) > 0 {
		if r, n := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || n != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return text
}
