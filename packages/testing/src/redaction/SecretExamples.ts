/** At least one secret of each shape, made up, and put together here so that no scanner takes it for a real one. */

export interface Example {
  readonly text: string
  /** The part that must not be shown. */
  readonly secret: string
}

const ALPHABET = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"
const some = (length: number) => ALPHABET.repeat(2).slice(7, 7 + length)
const upper = (length: number) => "Q2W3E4R5T6Y7U8I9O0P1".slice(0, length)
const whole = (...parts: ReadonlyArray<string>): Example => ({ text: parts.join(""), secret: parts.join("") })
const after = (kept: string, secret: string): Example => ({ text: `${kept}${secret}`, secret })

/** By the name of the shape. */
export const examples: Readonly<Record<string, ReadonlyArray<Example>>> = {
  "field": [
    after("password=", "hunter2-correct"),
    after("aws_secret_access_key = ", `wJalr/${some(34)}`),
    after("AccountKey=", `${some(40)}==`),
    after("\"secretAccessKey\": \"", "hunter2-correct"),
    after("private_key='", "hunter2-correct")
  ],
  "header": [
    after("password: ", "hunter2-correct"),
    after("x-api-key: ", "hunter2-correct"),
    after("X-Api-Key:", "hunter2-correct"),
    after("Private-Token: ", "hunter2-correct"),
    after("api_key: ", "hunter2-correct"),
    after("client_secret: ", "hunter2-correct"),
    after("Set-Cookie: ", "id=hunter2-correct")
  ],
  "token in YAML": [after("token: ", `v1.${some(20)}`)],
  "authorization": [after("Authorization: Digest ", "hunter2-correct")],
  "bearer": [after("bearer ", "hunter2-correct")],
  "address": [{ text: "https://user:hunter2-correct@example.org/x", secret: "hunter2-correct" }],
  "private key": [{ text: `-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb${some(30)}\n-----END OPENSSH PRIVATE KEY-----`, secret: some(30) }],
  "JWT": [whole("eyJ", "hbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxIn0", `.${some(40)}`)],
  "Slipway key": [whole("sbx_", "live_", some(43))],
  "Slipway token": [whole(some(43))],
  "webhook secret": [whole("whsec_", some(32))],
  "GitHub": [whole("ghp_", some(36)), whole("github_", "pat_11", some(40))],
  "GitLab": [whole("glpat-", some(20)), whole("glpat-", some(27), ".01.", "0a1b2c3d4"), whole("gldt-", some(20)), whole("glrt-", some(20))],
  "model provider": [whole("sk-", "ant-api03-", some(40)), whole("sk-", "proj-", some(40))],
  "xAI, Groq, Perplexity": [whole("xai-", some(40)), whole("gsk_", some(40)), whole("pplx-", some(40))],
  "Hugging Face": [whole("hf_", some(34))],
  "npm": [whole("npm_", some(36))],
  "PyPI": [whole("pypi-", "AgEI", some(60))],
  "AWS": [whole("AKIA", upper(16)), whole("ASIA", upper(16)), whole("ACCA", upper(16)), {
    text: `${"AKIA"}${upper(16)}:wJalr/${some(34)}`,
    secret: `wJalr/${some(34)}`
  }],
  "Google": [whole("AIza", some(35)), whole("ya29.", some(40)), whole("GOCSPX-", some(28))],
  "Slack": [whole("xoxb-", "123456789012-", some(24)), whole("xoxp-", some(24)), whole("xoxe.", `xoxp-1-${some(30)}`),
    whole("xapp-", "1-A01-", some(30))],
  "Slack webhook": [after("https://hooks.slack.com/services/", `T000/B000/${some(24)}`)],
  "Stripe": [whole("sk_", "live_", some(24)), whole("rk_", "live_", some(24)), whole("sk_", "test_", some(24))],
  "SendGrid": [whole("SG.", some(22), ".", some(43))],
  "Docker Hub": [whole("dckr_", "pat_", some(27))],
  "DigitalOcean": [whole("dop_", "v1_", "0123456789abcdef".repeat(4))],
  "Vault": [whole("hvs.", some(24))],
  "Shopify": ["shpat_", "shpca_", "shppa_", "shpss_", "shptka_"].map((prefix) => whole(prefix, "0123456789abcdef".repeat(2))),
  "Vercel": ["vcp_", "vci_", "vca_", "vcr_", "vck_"].map((prefix) => whole(prefix, some(24))),
  "Replicate": [whole("r8_", some(37))],
  "Linear": [whole("lin_", "api_", some(40)), whole("lin_", "oauth_", "0123456789abcdef".repeat(4)), whole("lin_", "wh_", some(32))],
  "Notion": [whole("ntn_", some(46)), whole("secret_", some(43))],
  "Tailscale": [whole("tskey-", "auth-", some(12), "CNTRL-", some(32)), whole("tskey-", "api-", some(12), "CNTRL-", some(32)),
    whole("tskey-", "client-", some(40))],
  "Sentry": [whole("sntrys_", "eyJ", some(40), "_", some(40)), whole("sntryu_", "0123456789abcdef".repeat(4))],
  "Twilio": [whole("SK", "0123456789abcdef".repeat(2)), {
    text: `AC${"0123456789abcdef".repeat(2)}:${"fedcba9876543210".repeat(2)}`,
    secret: "fedcba9876543210".repeat(2)
  }],
  "age": [whole("AGE-", "SECRET-KEY-1", upper(20).repeat(3).slice(0, 58))]
}
