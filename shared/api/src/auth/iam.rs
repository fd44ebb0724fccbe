//! The roles of callers that AWS has authenticated.

use duroxide_lambda::config::ApiRole;
use std::collections::BTreeMap;

/// Which caller has which role.
#[derive(Debug)]
pub(crate) struct IamRoles {
    /// By ARN; a pattern may end in `*`.
    pub roles: BTreeMap<String, ApiRole>,
    /// Of the others.
    pub default_role: Option<ApiRole>,
}

impl IamRoles {
    /// The greatest role that a pattern gives; the default's if none does.
    pub(crate) fn role_of(&self, arn: &str) -> Option<ApiRole> {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => arn.starts_with(prefix),
            None => arn == pattern,
        };
        let given = self
            .roles
            .iter()
            .filter(|(pattern, _)| matches(pattern))
            .map(|(_, role)| *role);
        given.max().or(self.default_role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_the_greatest_role_of_its_patterns_and_others_the_default() {
        let roles = IamRoles {
            roles: BTreeMap::from([
                ("arn:aws:sts::1:assumed-role/Ops/*".to_owned(), ApiRole::Operator),
                ("arn:aws:sts::1:assumed-role/*".to_owned(), ApiRole::Reader),
                ("arn:aws:iam::1:user/ada".to_owned(), ApiRole::Operator),
            ]),
            default_role: Some(ApiRole::Client),
        };
        for (arn, role) in [
            ("arn:aws:sts::1:assumed-role/Ops/bob", ApiRole::Operator),
            ("arn:aws:sts::1:assumed-role/Opsy/bob", ApiRole::Reader),
            ("arn:aws:iam::1:user/ada", ApiRole::Operator),
            ("arn:aws:iam::1:user/adam", ApiRole::Client),
            ("arn:aws:sts::2:assumed-role/Ops/bob", ApiRole::Client),
        ] {
            assert_eq!(roles.role_of(arn), Some(role), "{arn}");
        }
        let none = IamRoles {
            roles: BTreeMap::new(),
            default_role: None,
        };
        assert_eq!(none.role_of("arn:aws:iam::1:user/ada"), None);
    }
}
