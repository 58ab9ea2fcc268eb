#!/usr/bin/env python3
"""Writes image_signatures.json: certificates, and signatures of the four bytes `tiny`.

They are made with the library `cryptography`, as clients of Nova make them: an implementation other than Chronova's.
Certificates are valid for a hundred years, except for the two that are named after their time.
"""
import base64, datetime, json, pathlib
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

CONTENT = b"tiny"
HASHES = {"SHA-224": hashes.SHA224(), "SHA-256": hashes.SHA256(), "SHA-384": hashes.SHA384(), "SHA-512": hashes.SHA512()}
BEGIN, END = datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1)
certificates, signatures, keys, made = {}, [], {}, {}


def usage(sign):
    return x509.KeyUsage(digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
                         key_agreement=False, key_cert_sign=sign, crl_sign=sign, encipher_only=False, decipher_only=False)


def certificate(name, key, issuer=None, ca=True, path=None, sign=True, subject=None, begin=BEGIN, end=END, by=hashes.SHA256(),
                extensions=True):
    title = lambda text: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    keys[name] = key
    signer = keys[issuer] if issuer else key
    own = title(subject or name)
    of = made[issuer].subject if issuer else own
    builder = x509.CertificateBuilder().subject_name(own).issuer_name(of).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
    if extensions:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path if ca else None), critical=True)
        builder = builder.add_extension(usage(sign), critical=True)
    made[name] = builder.sign(signer, by)
    certificates[name] = made[name].public_bytes(serialization.Encoding.PEM).decode()


def new_rsa(bits=2048):
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def sign(name, key_type, method, salt=padding.PSS.MAX_LENGTH):
    key, hash_ = keys[name], HASHES[method]
    if isinstance(key, rsa.RSAPrivateKey):
        made_ = key.sign(CONTENT, padding.PSS(mgf=padding.MGF1(hash_), salt_length=salt), hash_)
    else:
        made_ = key.sign(CONTENT, ec.ECDSA(hash_))
    return {"certificate": name, "key_type": key_type, "method": method, "signature": base64.b64encode(made_).decode()}


leaf = {"ca": False, "sign": False}
certificate("root", new_rsa())
certificate("middle-a", new_rsa(), "root", path=1)
certificate("middle-b", new_rsa(), "middle-a", path=0)
certificate("leaf", new_rsa(), "middle-b", **leaf)
certificate("impostor", new_rsa(), subject="root")
certificate("short-root", new_rsa(), path=0)
certificate("below-short-root", new_rsa(), "short-root", path=0)
certificate("too-deep", new_rsa(), "below-short-root", **leaf)
certificate("no-authority", new_rsa(), "root", ca=False)
certificate("of-no-authority", new_rsa(), "no-authority", **leaf)
certificate("no-signer", new_rsa(), "root", sign=False)
certificate("of-no-signer", new_rsa(), "no-signer", **leaf)
certificate("bare", new_rsa(), "root", extensions=False)
certificate("of-bare", new_rsa(), "bare", **leaf)
certificate("past", new_rsa(), "root", end=datetime.datetime(2021, 1, 1), **leaf)
certificate("future", new_rsa(), "root", begin=datetime.datetime(2119, 1, 1), **leaf)
certificate("past-authority", new_rsa(), "root", end=datetime.datetime(2021, 1, 1))
certificate("of-past-authority", new_rsa(), "past-authority", **leaf)
certificate("alone", new_rsa(), **leaf)
certificate("curve-root", ec.generate_private_key(ec.SECP384R1()), by=hashes.SHA384())
certificate("p256", ec.generate_private_key(ec.SECP256R1()), "curve-root", by=hashes.SHA256(), **leaf)
certificate("p384", ec.generate_private_key(ec.SECP384R1()), "curve-root", by=hashes.SHA384(), **leaf)
certificate("p521-authority", ec.generate_private_key(ec.SECP521R1()), "curve-root", by=hashes.SHA512())
certificate("p521", ec.generate_private_key(ec.SECP521R1()), "p521-authority", by=hashes.SHA256(), **leaf)
certificate("rsa-1024", new_rsa(1024), "root", by=hashes.SHA224(), **leaf)
certificate("rsa-4096", new_rsa(4096), "root", by=hashes.SHA512(), **leaf)

for method in HASHES:
    for name in ["leaf", "rsa-1024", "rsa-4096"]:
        signatures.append(sign(name, "RSA-PSS", method))
    signatures.append(sign("p384", "ECC_SECP384R1", method))
    signatures.append(sign("p521", "ECC_SECP521R1", method))
    signatures.append(sign("p256", "ECC_SECP384R1", method))
for name in ["too-deep", "of-no-authority", "past", "alone", "impostor"]:
    signatures.append(sign(name, "RSA-PSS", "SHA-256"))
wrong = [sign("leaf", "RSA-PSS", "SHA-256", salt=padding.PSS.DIGEST_LENGTH)]
place = pathlib.Path(__file__).with_suffix(".json")
place.write_text(json.dumps({"certificates": certificates, "signatures": signatures, "short_salt": wrong}, indent=1) + "\n")
