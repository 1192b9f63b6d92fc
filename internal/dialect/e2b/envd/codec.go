package envd

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// strictJSON is the JSON codec, which refuses a field that is not known: an option must not be accepted and ignored.
type strictJSON struct{ name string }

// Name is the codec's name in content types.
func (c strictJSON) Name() string { return c.name }

// Marshal encodes a message.
func (c strictJSON) Marshal(m any) ([]byte, error) {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a message", m)
	}
	return protojson.MarshalOptions{}.Marshal(msg)
}

// Unmarshal decodes a message.
func (c strictJSON) Unmarshal(data []byte, m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("decode %T: not a message", m)
	}
	if len(data) == 0 {
		return fmt.Errorf("empty: not a JSON object")
	}
	return protojson.Unmarshal(data, msg)
}

// strictProto is the binary codec, which refuses a field that is not known.
type strictProto struct{}

// Name is the codec's name in content types.
func (strictProto) Name() string { return "proto" }

// Marshal encodes a message.
func (strictProto) Marshal(m any) ([]byte, error) {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a message", m)
	}
	return proto.Marshal(msg)
}

// Unmarshal decodes a message.
func (strictProto) Unmarshal(data []byte, m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("decode %T: not a message", m)
	}
	if err := proto.Unmarshal(data, msg); err != nil {
		return err
	}
	return refuseUnknown(msg.ProtoReflect())
}

// refuseUnknown looks for fields that are not known in a message and those inside it.
func refuseUnknown(m protoreflect.Message) (err error) {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("%s has a field that is not known", m.Descriptor().FullName())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if err = refuseUnknown(v.List().Get(i).Message()); err != nil {
					return false
				}
			}
		default:
			err = refuseUnknown(v.Message())
		}
		return err == nil
	})
	return err
}
