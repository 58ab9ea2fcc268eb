# Functions that sign images; sourced by the scripts of tests/real after cloud.sh. BARBICAN is Barbican's address. Keys
# and certificates are in the folder SIGNERS.
#
#   signer NAME [ISSUER]   makes a key and a certificate. Without an ISSUER the certificate is a root, which may sign
#                          others; with an ISSUER it is for images only
#   deposit TOKEN NAME     stores the certificate in Barbican for the project of TOKEN, and prints its id
#   signature NAME FILE    prints the signature of a file: RSA-PSS with SHA-256 and a salt of maximal length
#   signed NAME ID FILE    prints the options of `openstack image set` for this signature and the certificate's id

signer() {
  local name=$1 issuer=${2:-} use by
  mkdir -p -m 0700 "$SIGNERS"
  if [ -n "$issuer" ]; then
    use=$'basicConstraints = critical, CA:false\nkeyUsage = critical, digitalSignature'
    by=(-CA "$SIGNERS/$issuer.pem" -CAkey "$SIGNERS/$issuer.key" -CAcreateserial)
  else
    use=$'basicConstraints = critical, CA:true, pathlen:0\nkeyUsage = critical, keyCertSign'
    by=(-signkey "$SIGNERS/$name.key")
  fi
  openssl req -new -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$SIGNERS/$name.key" -out "$SIGNERS/$name.csr" 2>/dev/null
  openssl x509 -req -days 2 -sha256 -in "$SIGNERS/$name.csr" -extfile <(echo "$use") "${by[@]}" -out "$SIGNERS/$name.pem" 2>/dev/null
}

deposit() { # token, name
  ask "$1" "$BARBICAN/v1/secrets" -d "{\"name\": \"$2\", \"secret_type\": \"certificate\", \"payload\": \"$(base64 -w 0 "$SIGNERS/$2.pem")\",
    \"payload_content_type\": \"application/octet-stream\", \"payload_content_encoding\": \"base64\"}" >"$WORK/status"
  field secret_ref <"$WORK/answer" | sed 's|.*/||'
}

signature() { # name, file
  openssl dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:max -sign "$SIGNERS/$1.key" "$2" | base64 -w 0
}

signed() { # name, id of the certificate, file
  printf '%s\n' --property "img_signature=$(signature "$1" "$3")" --property img_signature_hash_method=SHA-256 \
    --property img_signature_key_type=RSA-PSS --property "img_signature_certificate_uuid=$2"
}
