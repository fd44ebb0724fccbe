//! Inputs, events and messages: given as an argument, in a file, or on stdin.

use super::answer::Failure;
use std::fs;
use std::io::{self, Read as _};

/// The text that an argument stands for: `-` is stdin, `@file` a file, anything else the text itself. duroxide takes any text,
/// so it is not checked for JSON.
pub(super) fn read(argument: &str) -> Result<String, Failure> {
    let (bytes, from) = if argument == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        (read.map(|_| bytes), "stdin".to_owned())
    } else if let Some(path) = argument.strip_prefix('@') {
        (fs::read(path), format!("the file '{path}'"))
    } else {
        return Ok(argument.to_owned());
    };
    let bytes = bytes.map_err(|error| Failure::error(format!("{from} cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::error(format!(
            "{from} is not UTF-8, which duroxide needs: encode it, for example as base64"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answer::Code;

    #[test]
    fn an_argument_is_text_and_a_file_is_its_content() {
        let path = std::env::temp_dir().join(format!("payload-{}", std::process::id()));
        let argument = format!("@{}", path.display());
        assert_eq!(read("{not json").unwrap(), "{not json");
        assert_eq!(read("").unwrap(), "");
        fs::write(&path, "{\"a\": \"ø\"}\n").unwrap();
        assert_eq!(read(&argument).unwrap(), "{\"a\": \"ø\"}\n");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read(&argument).unwrap_err().message.contains("is not UTF-8"));
        fs::remove_file(&path).unwrap();
        let fail = read(&argument).unwrap_err();
        assert_eq!(fail.code, Code::Error);
        assert!(fail.message.contains("cannot be read"), "{fail:?}");
    }
}
