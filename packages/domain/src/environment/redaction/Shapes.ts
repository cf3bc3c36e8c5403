/**
 * The shapes of secrets, each with its source. The test has an example of each shape, so add one there for each shape added here.
 *
 * All shapes form one expression that ignores case. Each alternative is bounded, or consumes every character that it looks at and
 * cannot start within another match. So the time is linear in any text. A group is the part of a match that stays visible; at most one
 * group matches.
 */

interface Shape {
  /** Unique. */
  readonly name: string
  /** The document that defines the shape, or the place where it was seen. */
  readonly source: string
  readonly pattern: string
}

/** White space, plain or encoded in a URL. */
const SPACE = String.raw`(?:\s|%20|\+)`
const COLON = String.raw`(?::|%3A)`
const QUOTE = String.raw`(?:[\\"']|%22|%27)`
const SLASH = String.raw`(?:\/|%2F)`
const WORDS = String.raw`(?:[A-Z ]|%20|\+){0,40}`

/** Names of fields that hold a secret, with any prefix. */
const CERTAIN = String
  .raw`passw(?:or)?d|passphrase|secret(?:[_-]?access)?(?:[_-]?key)?|(?:access|account|api|auth|private|shared|signing)[_-]?key`
/** Names of fields that are also words of prose. */
const LIKELY = String.raw`token|session|cookie|oauth|verifier|csrf|credentials?|authorization`

const VALUE = String.raw`[^\s"'&;,\\]+`

/** The shapes by name, in the order in which they are tried. */
export const shapes: ReadonlyArray<Shape> = [
  {
    name: "field",
    source: "settings, queries, forms, JSON: password=…, \"token\": \"…\", cookie: '…'",
    pattern:
      String.raw`((?:${CERTAIN}|${LIKELY})${QUOTE}{0,4}${SPACE}{0,4}(?:=|%3D|${COLON}${SPACE}{0,4}${QUOTE}{1,4})${SPACE}{0,4}${QUOTE}{0,4}`
      + String.raw`|[?&](?:code|state|key|sig|signature)=)${VALUE}`
  },
  {
    name: "header",
    source: "RFC 9110 and YAML: password: …, x-api-key: …, private-token: …",
    pattern: String.raw`((?:${CERTAIN}|[a-z]-token|set-cookie)${SPACE}{0,4}${COLON}${SPACE}{0,4})${VALUE}`
  },
  {
    name: "token in YAML",
    source: "token: …, told from prose by a digit and its length",
    pattern: String.raw`(token${SPACE}{0,4}${COLON}${SPACE}{0,4})(?=[a-z_.~+/=-]{0,100}\d)[\w.~+/=-]{12,}`
  },
  {
    name: "authorization",
    source: "RFC 9110, 11.6.2",
    pattern: String.raw`(authorization${SPACE}{0,4}${COLON}${SPACE}{0,4}(?:[a-z]{1,20}${SPACE}{1,4})?)${VALUE}`
  },
  { name: "bearer", source: "RFC 6750", pattern: String.raw`(bearer${SPACE}{1,4})${VALUE}` },
  {
    name: "address",
    source: "RFC 3986, 3.2.1: up to the last @ before the path; also where it stands in another one",
    pattern: String.raw`(\/\/)[^\s/?#"']+(?=@)|((?:%2F){2})(?:(?!%2F|%3F|%23)[^\s/?#"']){1,200}(?=@|%40)`
  },
  {
    name: "private key",
    source: "RFC 7468",
    pattern: String.raw`-----BEGIN${WORDS}PRIVATE${SPACE}KEY-----[^]*?(?:-----END${WORDS}PRIVATE${SPACE}KEY-----|$)`
  },
  { name: "JWT", source: "RFC 7519", pattern: String.raw`(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*` },
  { name: "Slipway key", source: "Keys of this repository", pattern: String.raw`sbx_(?:live|test)_[\w-]+` },
  {
    name: "Slipway token",
    source: "sessions, links that sign in, the model gateway: 43 characters of base62. No digest in hex",
    pattern: String.raw`(?<![a-z0-9])(?![0-9a-f]+(?![a-z0-9]))[a-z0-9]{43,}`
  },
  { name: "webhook secret", source: "standardwebhooks.com; docs.stripe.com/webhooks", pattern: String.raw`whsec_[\w+/=%-]+` },
  { name: "GitHub", source: "docs.github.com, About authentication: token formats", pattern: String.raw`gh[a-z]_\w{16,}|github_pat_\w+` },
  {
    name: "GitLab",
    source: "docs.gitlab.com, Token overview: prefixes",
    pattern: String.raw`gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|wt|soat|ffct)-[\w.-]{16,}`
  },
  { name: "model provider", source: "OpenAI, Anthropic, OpenRouter, DeepSeek", pattern: String.raw`(?:\b|%3D|%20|%22)sk-[\w-]{16,}` },
  { name: "xAI, Groq, Perplexity", source: "their consoles, 2026-11", pattern: String.raw`(?:xai-|gsk_|pplx-)[a-z0-9]{32,}` },
  { name: "Hugging Face", source: "huggingface.co/docs, User access tokens", pattern: String.raw`hf_[a-z0-9]{30,}` },
  { name: "npm", source: "docs.npmjs.com, About access tokens", pattern: String.raw`npm_[a-z0-9]{30,}` },
  { name: "PyPI", source: "pypi.org/help#apitoken", pattern: String.raw`pypi-[\w-]{50,}` },
  {
    name: "AWS",
    source: "docs.aws.amazon.com, IAM identifiers; and the secret where it is written behind",
    pattern: String.raw`(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?:(?:[\s:,"'/|]|%3A|%2C|%20|%22){1,4}(?:[A-Z0-9/+]|%2F|%2B){40})?`
  },
  {
    name: "Google",
    source: "cloud.google.com/docs, API keys and OAuth clients",
    pattern: String.raw`AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}`
  },
  { name: "Slack", source: "api.slack.com, Token types", pattern: String.raw`xox[a-z]-[\w-]{10,}|xoxe\.[\w.-]{10,}|xapp-\d-[\w-]{10,}` },
  {
    name: "Slack webhook",
    source: "api.slack.com, Incoming webhooks",
    pattern: String.raw`(hooks\.slack\.com${SLASH}(?:services|workflows)${SLASH})[\w/%-]+`
  },
  { name: "Stripe", source: "docs.stripe.com/keys", pattern: String.raw`[rs]k_(?:live|test)_[a-z0-9]{10,}` },
  { name: "SendGrid", source: "docs.sendgrid.com, API keys", pattern: String.raw`SG\.[\w-]{20,30}\.[\w-]{40,50}` },
  { name: "Docker Hub", source: "docs.docker.com, Access tokens", pattern: String.raw`dckr_(?:pat|oat)_[\w-]{20,}` },
  { name: "DigitalOcean", source: "docs.digitalocean.com, API tokens", pattern: String.raw`do[opr]_v1_[a-f0-9]{40,}` },
  { name: "Vault", source: "developer.hashicorp.com/vault, Tokens", pattern: String.raw`hv[sbr]\.[\w-]{20,}` },
  { name: "Shopify", source: "shopify.dev, Access tokens", pattern: String.raw`shp[a-z]{2,3}_[a-f0-9]{30,}` },
  { name: "Vercel", source: "vercel.com/docs, Token formats", pattern: String.raw`\bvc[a-z]_[a-z0-9]{20,}` },
  { name: "Replicate", source: "replicate.com/docs, API tokens", pattern: String.raw`\br8_[a-z0-9]{30,}` },
  { name: "Linear", source: "linear.app/developers", pattern: String.raw`lin_(?:api|oauth|wh)_[a-z0-9]{20,}` },
  { name: "Notion", source: "developers.notion.com, Authentication", pattern: String.raw`\bntn_[a-z0-9]{30,}|\bsecret_[a-z0-9]{40,}` },
  { name: "Tailscale", source: "tailscale.com/kb, Key prefixes", pattern: String.raw`tskey-[a-z0-9-]{16,}` },
  { name: "Sentry", source: "docs.sentry.io, Auth tokens", pattern: String.raw`sntry[a-z]_[\w+/=-]{20,}` },
  {
    name: "Twilio",
    source: "twilio.com/docs, SIDs and auth tokens: the secret where it is written behind",
    pattern: String
      .raw`(?<![a-z0-9])(?:AC|SK)[a-f0-9]{32}(?![a-z0-9])(?:(?:[\s:,"'/|]|%3A|%2C|%20|%22){1,4}[a-z0-9]{32}(?![a-z0-9]))?`
  },
  { name: "age", source: "age-encryption.org/v1", pattern: String.raw`AGE-SECRET-KEY-1[A-Z0-9]{50,}` }
]
