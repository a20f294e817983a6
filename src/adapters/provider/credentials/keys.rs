//! Signs JSON Web Tokens: holds the private keys, read once, and shows none of them.

use std::fmt;

use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use crate::config::secret::Secret;
use crate::domain::signing::jwt::{Claims, JwtAlgorithm, assembled, hs256, signing_input};

/// A key that signs tokens.
pub(super) struct SigningKey {
    key: Key,
    algorithm: JwtAlgorithm,
    key_id: Option<String>,
    dice: SystemRandom,
}

enum Key {
    Shared(Secret),
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
}

/// The key is none of its algorithm. What it is instead is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoKey;

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm.name())
    }
}

impl SigningKey {
    /// The key that `secret` holds: for HS256 its own bytes, else PEM: PKCS#8, or PKCS#1 for RSA. RSA keys have 2,048 to
    /// 4,096 bits, as ring asks.
    pub(super) fn new(
        algorithm: JwtAlgorithm,
        secret: &Secret,
        key_id: Option<String>,
    ) -> Result<Self, NoKey> {
        let dice = SystemRandom::new();
        let key = match algorithm {
            JwtAlgorithm::Hs256 => Key::Shared(secret.clone()),
            JwtAlgorithm::Es256 => Key::Ecdsa(Box::new(ecdsa(secret, &dice)?)),
            JwtAlgorithm::Rs256 => Key::Rsa(Box::new(rsa(secret)?), &RSA_PKCS1_SHA256),
            JwtAlgorithm::Rs512 => Key::Rsa(Box::new(rsa(secret)?), &RSA_PKCS1_SHA512),
        };
        Ok(Self {
            key,
            algorithm,
            key_id,
            dice,
        })
    }

    /// The token that claims this; `None` if the system has no chance to give, or the key signs nothing.
    pub(super) fn sign(&self, claims: &Claims<'_>) -> Option<String> {
        let input = signing_input(self.algorithm, self.key_id.as_deref(), claims);
        let signature = match &self.key {
            Key::Shared(secret) => hs256(secret.expose().as_bytes(), &input),
            Key::Ecdsa(pair) => {
                let signature = pair.sign(&self.dice, input.as_bytes()).ok()?;
                signature.as_ref().to_vec()
            }
            Key::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*encoding, &self.dice, input.as_bytes(), &mut signature)
                    .ok()?;
                signature
            }
        };
        Some(assembled(&input, &signature))
    }
}

fn ecdsa(secret: &Secret, dice: &SystemRandom) -> Result<EcdsaKeyPair, NoKey> {
    let PrivateKeyDer::Pkcs8(der) = pem(secret)? else {
        return Err(NoKey);
    };
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der(), dice).map_err(|_| NoKey)
}

fn rsa(secret: &Secret) -> Result<RsaKeyPair, NoKey> {
    let key = pem(secret)?;
    let pair = if let PrivateKeyDer::Pkcs8(der) = &key {
        RsaKeyPair::from_pkcs8(der.secret_pkcs8_der())
    } else if let PrivateKeyDer::Pkcs1(der) = &key {
        RsaKeyPair::from_der(der.secret_pkcs1_der())
    } else {
        return Err(NoKey);
    };
    pair.map_err(|_| NoKey)
}

fn pem(secret: &Secret) -> Result<PrivateKeyDer<'static>, NoKey> {
    PrivateKeyDer::from_pem_slice(secret.expose().as_bytes()).map_err(|_| NoKey)
}

#[cfg(test)]
pub(in crate::adapters::provider) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512,
        RsaPublicKeyComponents, UnparsedPublicKey,
    };

    use super::*;
    use crate::domain::time::Timestamp;

    /// The key of RFC 7515, appendix A.2, as PKCS#8 in PEM: it is in every book, and signs for nobody.
    pub(in crate::adapters::provider) const RSA_OF_RFC_7515: &str =
        include_str!("../../../../tests/keys/rfc7515_a2.pem");
    /// The key of RFC 7515, appendix A.3, likewise.
    pub(in crate::adapters::provider) const EC_OF_RFC_7515: &str =
        include_str!("../../../../tests/keys/rfc7515_a3.pem");

    const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMs\
        D1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxv\
        b3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    fn decoded(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// Whether the key of RFC 7515 for this algorithm has signed the token.
    pub(in crate::adapters::provider) fn is_signed_by_rfc_7515(
        algorithm: JwtAlgorithm,
        token: &str,
    ) -> bool {
        let (input, signature) = token.rsplit_once('.').unwrap();
        let (input, signature) = (input.as_bytes(), decoded(signature));
        let rsa = |parameters| {
            let public = RsaPublicKeyComponents {
                n: decoded(N),
                e: vec![1, 0, 1],
            };
            public.verify(parameters, input, &signature).is_ok()
        };
        match algorithm {
            JwtAlgorithm::Hs256 => panic!("it has no public key"),
            JwtAlgorithm::Es256 => {
                let public = [vec![4], decoded(X), decoded(Y)].concat();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
                    .verify(input, &signature)
                    .is_ok()
            }
            JwtAlgorithm::Rs256 => rsa(&RSA_PKCS1_2048_8192_SHA256),
            JwtAlgorithm::Rs512 => rsa(&RSA_PKCS1_2048_8192_SHA512),
        }
    }

    fn key(algorithm: JwtAlgorithm, secret: &str) -> Result<SigningKey, NoKey> {
        SigningKey::new(algorithm, &Secret::new(secret), Some("k".to_owned()))
    }

    fn pem_of(algorithm: JwtAlgorithm) -> &'static str {
        match algorithm {
            JwtAlgorithm::Hs256 => "a shared secret",
            JwtAlgorithm::Es256 => EC_OF_RFC_7515,
            JwtAlgorithm::Rs256 | JwtAlgorithm::Rs512 => RSA_OF_RFC_7515,
        }
    }

    #[test]
    fn a_public_key_confirms_what_its_private_key_has_signed_and_nothing_else() {
        let claims = Claims {
            issuer: "us",
            subject: None,
            audience: None,
            scope: None,
            id: None,
            issued_at: Timestamp::EPOCH,
            lifetime: None,
        };
        let asymmetric = JwtAlgorithm::ALL
            .into_iter()
            .filter(|algorithm| !algorithm.is_shared_secret());
        for algorithm in asymmetric {
            let token = key(algorithm, pem_of(algorithm))
                .unwrap()
                .sign(&claims)
                .unwrap();
            assert!(is_signed_by_rfc_7515(algorithm, &token), "{algorithm:?}");
            let other = token.replacen("e", "f", 1);
            assert!(!is_signed_by_rfc_7515(algorithm, &other), "{algorithm:?}");
        }
    }

    /// RFC 7515, appendix A.2.1: RS256 is a function of key and input, so that the signature must be the one printed there.
    #[test]
    fn rs256_is_that_of_rfc_7515() {
        let input = "eyJhbGciOiJSUzI1NiJ9.\
            eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let pair = rsa(&Secret::new(RSA_OF_RFC_7515)).unwrap();
        let mut signature = vec![0; pair.public().modulus_len()];
        let dice = SystemRandom::new();
        pair.sign(&RSA_PKCS1_SHA256, &dice, input.as_bytes(), &mut signature)
            .unwrap();
        assert_eq!(
            URL_SAFE_NO_PAD.encode(&signature),
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKB\
             YNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6Bf\
             I7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
        );
    }

    #[test]
    fn a_key_of_another_algorithm_is_none_and_nothing_shows_it() {
        assert!(key(JwtAlgorithm::Es256, RSA_OF_RFC_7515).is_err());
        assert!(key(JwtAlgorithm::Rs256, EC_OF_RFC_7515).is_err());
        assert!(key(JwtAlgorithm::Rs512, "no PEM").is_err());
        let shown = format!("{:?}", key(JwtAlgorithm::Es256, EC_OF_RFC_7515));
        assert_eq!(shown, "Ok(SigningKey(ES256))");
    }
}
