//! Texts for workflows: inputs, events, messages. Given as they are, from a file, or by stdin.

use super::answer::Fail;
use std::fs;
use std::io::{self, Read as _};

/// The text that an argument stands for: `-` is stdin, `@file` a file, anything else itself. duroxide takes any text; it
/// is JSON only if the orchestration says so, so nothing is checked here.
pub(super) fn read(argument: &str) -> Result<String, Fail> {
    let (bytes, from) = if argument == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        (read.map(|_| bytes), "stdin".to_owned())
    } else if let Some(path) = argument.strip_prefix('@') {
        (fs::read(path), format!("the file '{path}'"))
    } else {
        return Ok(argument.to_owned());
    };
    let bytes = bytes.map_err(|error| Fail::error(format!("{from} cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| {
        Fail::error(format!(
            "{from} is not UTF-8, and duroxide takes texts: encode it, as base64 for instance"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answer::Code;

    #[test]
    fn a_text_is_itself_and_a_file_is_its_content() {
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
