/// Returns the number of the last parameter of a statement. Each begins with `mark`, and its number follows; a
/// `?` without one comes after the largest so far. What stands in quotes does not count.
pub fn last_parameter(sql: &str, mark: char) -> usize {
    let (mut last, mut quote) = (0, None);
    let mut rest = sql.chars().peekable();
    while let Some(found) = rest.next() {
        match quote {
            Some(open) if found == open => quote = None,
            Some(_) => {}
            None if matches!(found, '\'' | '"') => quote = Some(found),
            None if found == mark => {
                let mut digits = String::new();
                while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                last = match digits.parse::<usize>() {
                    Ok(number) => last.max(number),
                    Err(_) if mark == '?' => last + 1,
                    Err(_) => last,
                };
            }
            None => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_with_and_without_a_number() {
        for (sql, mark, last) in [
            ("a = 1", '$', 0),
            ("UPDATE files SET body = $1 WHERE path = $2", '$', 2),
            ("$2 $1 $12 $3", '$', 12),
            ("body ? 'key' AND path = $1", '$', 1),
            ("a = '$7 isn''t one $8' AND \"$9\" = $2", '$', 2),
            ("$ $a", '$', 0),
            ("a = ? AND b = ?", '?', 2),
            ("a = ?5 AND b = ?", '?', 6),
            ("a = '?' AND b = ?", '?', 1),
        ] {
            assert_eq!(last_parameter(sql, mark), last, "{sql}");
        }
    }
}
