//! Who may use the service: bearer tokens.

use sha2::{Digest, Sha256};

/// The hash of the token that clients have to present.
pub(super) struct Token([u8; 32]);

impl Token {
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether the value of an `Authorization` header is `Bearer` and this token. Hashes are compared, all bytes of them, so
    /// that the time tells nothing about the token.
    pub fn is_presented(&self, header: Option<&[u8]>) -> bool {
        let header = header.unwrap_or_default();
        let (scheme, token) = header.split_at(header.len().min(7));
        let given: [u8; 32] = Sha256::digest(token.trim_ascii()).into();
        let pairs = self.0.iter().zip(&given);
        let difference = pairs.fold(0, |sum, (one, other)| sum | (one ^ other));
        std::hint::black_box(difference) == 0 && scheme.eq_ignore_ascii_case(b"bearer ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_accepted() {
        let token = Token::new("secret");
        for header in ["Bearer secret", "bearer secret", "Bearer  secret "] {
            assert!(token.is_presented(Some(header.as_bytes())), "{header}");
        }
        for header in [
            "Bearer secre",
            "Bearer secrets",
            "Bearer ",
            "secret",
            "Basic secret",
            "Bearer: secret",
            "Bearer",
            "",
        ] {
            assert!(!token.is_presented(Some(header.as_bytes())), "{header}");
        }
        assert!(!token.is_presented(None));
        assert!(!token.is_presented(Some(b"Bearer \xff\xfe")));
    }
}
