"""Messages with arbitrary values in every field, as a broken or hostile peer might send them."""

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

_WIDE_BYTES = st.binary(max_size=40) | st.sampled_from([bytes(16), bytes(32), b"k" * 33])
_VALUES = {
    FieldDescriptor.TYPE_BYTES: _WIDE_BYTES,
    FieldDescriptor.TYPE_STRING: st.text(max_size=12) | st.sampled_from(["n1", "x" * 3000, "\n"]),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 6) | st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 33) | st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
}


@st.composite
def arbitrary(draw, message_type: type[Message]):
    """A message that has travelled: what is drawn was serialised and parsed once."""
    message = message_type()
    _fill(draw, message, message_type.DESCRIPTOR)
    return message_type.FromString(message.SerializeToString())


def _fill(draw, message, descriptor: Descriptor) -> None:
    for field in descriptor.fields:
        if draw(st.integers(0, 3)) == 0:
            continue
        if field.is_repeated and field.type == FieldDescriptor.TYPE_MESSAGE:
            for _ in range(draw(st.integers(0, 2))):
                _fill(draw, getattr(message, field.name).add(), field.message_type)
        elif field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(_VALUES[field.type], max_size=3)))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            child = getattr(message, field.name)
            child.SetInParent()
            _fill(draw, child, field.message_type)
        else:
            setattr(message, field.name, draw(_VALUES[field.type]))
