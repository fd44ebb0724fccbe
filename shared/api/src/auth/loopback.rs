//! Whether a request comes from a program on this machine, or from a web page that a browser on it shows. Pure.
//!
//! A local API listens on loopback only, but every web page that its user visits can send requests there. A page of another
//! site sends its own `Origin`, and a name that was made to point to this machine (DNS rebinding) is in `Host`.

use http::{HeaderMap, header};

/// Whether both headers name this machine.
pub(crate) fn is_here(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).is_some_and(is_loopback);
    let origin = text(header::ORIGIN).is_none_or(|origin| {
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(is_loopback)
    });
    let site = headers
        .get("sec-fetch-site")
        .map(|value| value.to_str().unwrap_or_default());
    host && origin && site.is_none_or(|site| ["same-origin", "same-site", "none"].contains(&site))
}

fn is_loopback(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => (host, port),
            None => return false,
        },
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    is_port && (["127.0.0.1", "::1"].contains(&host) || host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn here(pairs: &[(&str, &str)]) -> bool {
        let pairs = pairs.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        is_here(&pairs.collect())
    }

    #[test]
    fn programs_and_pages_of_this_machine_are_here() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9401",
            "localhost:1",
            "LOCALHOST",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(here(&[("host", host)]), "{host}");
        }
        assert!(here(&[
            ("host", "localhost:1"),
            ("origin", "http://localhost:2"),
            ("sec-fetch-site", "same-site")
        ]));
    }

    #[test]
    fn pages_of_other_sites_are_not() {
        for pairs in [
            &[] as &[_],
            &[("host", "evil.example")],
            &[("host", "localhost.evil.example:9401")],
            &[("host", "127.0.0.1.evil.example")],
            &[("host", "127.0.0.1:x")],
            &[("host", "[::1")],
            &[("host", "localhost"), ("origin", "https://evil.example")],
            &[("host", "localhost"), ("origin", "null")],
            &[("host", "localhost"), ("origin", "http://localhost@evil.example")],
            &[("host", "localhost"), ("sec-fetch-site", "cross-site")],
        ] {
            assert!(!here(pairs), "{pairs:?}");
        }
    }
}
