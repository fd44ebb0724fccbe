//! Addresses that may receive a credential: HTTPS, or plain HTTP to this machine.
//!
//! A reason never repeats the given text, because the most common mistake is to paste a whole connection string, key
//! included.

use url::{Host, Url};

/// Parses the address of a service: scheme and host, and no more. The reason completes "it cannot be used: ".
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let refuse = |reason: &str| Err(reason.to_owned());
    if text.contains("AccountKey=") || text.contains("AccountEndpoint=") {
        return refuse("it is a connection string; pass its AccountEndpoint here and the key separately");
    }
    let Ok(url) = Url::parse(text.trim()) else {
        return refuse("it is not a URL");
    };
    let Some(host) = url.host() else {
        return refuse("it names no host");
    };
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&host) => {}
        "http" => {
            return Err(format!(
                "plain http is only allowed to this machine, not to {host}; use https"
            ));
        }
        _ => return refuse("it is neither https nor http"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it has a user name or password");
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return refuse("it has a path, query or fragment after the host; give the address only");
    }
    Ok(url)
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => name.eq_ignore_ascii_case("localhost"),
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}
