//! What tonic's code generator makes in your service: here a message is a text.

use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

pub struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Text;
    type Decoder = Text;
    fn encoder(&mut self) -> Text {
        Text
    }
    fn decoder(&mut self) -> Text {
        Text
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;
    fn encode(&mut self, text: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;
    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let text = bytes::Buf::copy_to_bytes(buffer, bytes::Buf::remaining(buffer));
        Ok(String::from_utf8(text.to_vec()).ok())
    }
}
