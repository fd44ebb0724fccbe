//! Which names were probably meant to be the same. Pure.

/// Whether two different names were probably meant to be the same: equal without case and separators, or some letters off.
pub(super) fn is_similar(wanted: &str, found: &str) -> bool {
    if wanted == found {
        return false;
    }
    let (wanted, found) = (folded(wanted), folded(found));
    wanted == found || distance_within(&wanted, &found, allowed(wanted.len().min(found.len())))
}

/// Letters and digits in lower case.
fn folded(name: &str) -> Vec<char> {
    let kept = name.chars().filter(|character| character.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

/// How many letters may differ. Short names differ by a letter on purpose (`step1`, `step2` do, too: see below).
fn allowed(length: usize) -> usize {
    match length {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    }
}

/// Whether so many insertions, deletions, replacements and swaps make one of the other. Names that differ in digits only are
/// numbered on purpose.
fn distance_within(a: &[char], b: &[char], most: usize) -> bool {
    let letters = |name: &[char]| -> Vec<char> { name.iter().copied().filter(|c| !c.is_numeric()).collect() };
    if most == 0 || a.len().abs_diff(b.len()) > most || letters(a) == letters(b) {
        return false;
    }
    // Three rows of the table of distances are enough, because a swap looks two rows back.
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()] <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_similar_without_case_and_separators_or_some_letters_off() {
        for (wanted, found) in [
            ("approval", "Approval"),
            ("order-approved", "orderApproved"),
            ("approval", "aproval"),
            ("approval", "approvla"),
            ("approval", "approvals"),
            ("deliver", "delivr"),
        ] {
            assert!(
                is_similar(wanted, found) && is_similar(found, wanted),
                "{wanted} {found}"
            );
        }
    }

    #[test]
    fn other_names_are_not() {
        for (wanted, found) in [
            ("approval", "approval"),
            ("go", "no"),
            ("step1", "step2"),
            ("approval", "refusal"),
            ("paid", "packed"),
            ("", "a"),
        ] {
            assert!(!is_similar(wanted, found), "{wanted} {found}");
        }
    }
}
