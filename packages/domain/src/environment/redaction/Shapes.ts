/**
 * The shapes of secrets, each with its source. The test has an example of each shape, so add one there for each shape added here.
 *
 * All shapes form one expression that ignores case. Each alternative is bounded, or consumes every character that it looks at and
 * cannot start within another match. So the time is linear in any text. A group is the part of a match that stays visible; at most one
 * group matches.
 */

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

/** Patterns by the name of the shape, in the order in which they are tried. Each comment names the document that defines the shape. */
export const shapes: Readonly<Record<string, string>> = {
  // Settings, queries, forms, JSON: password=…, "token": "…", cookie: '…'
  field:
    String.raw`((?:${CERTAIN}|${LIKELY})${QUOTE}{0,4}${SPACE}{0,4}(?:=|%3D|${COLON}${SPACE}{0,4}${QUOTE}{1,4})${SPACE}{0,4}${QUOTE}{0,4}`
    + String.raw`|[?&](?:code|state|key|sig|signature)=)${VALUE}`,
  // RFC 9110 and YAML: password: …, x-api-key: …, private-token: …
  header: String.raw`((?:${CERTAIN}|[a-z]-token|set-cookie)${SPACE}{0,4}${COLON}${SPACE}{0,4})${VALUE}`,
  // token: …, told from prose by a digit and its length
  "token in YAML": String.raw`(token${SPACE}{0,4}${COLON}${SPACE}{0,4})(?=[a-z_.~+/=-]{0,100}\d)[\w.~+/=-]{12,}`,
  // RFC 9110, 11.6.2
  authorization: String.raw`(authorization${SPACE}{0,4}${COLON}${SPACE}{0,4}(?:[a-z]{1,20}${SPACE}{1,4})?)${VALUE}`,
  // RFC 6750
  bearer: String.raw`(bearer${SPACE}{1,4})${VALUE}`,
  // RFC 3986, 3.2.1: up to the last @ before the path; also where it stands in another one
  address: String.raw`(\/\/)[^\s/?#"']+(?=@)|((?:%2F){2})(?:(?!%2F|%3F|%23)[^\s/?#"']){1,200}(?=@|%40)`,
  // RFC 7468
  "private key": String.raw`-----BEGIN${WORDS}PRIVATE${SPACE}KEY-----[^]*?(?:-----END${WORDS}PRIVATE${SPACE}KEY-----|$)`,
  // RFC 7519
  JWT: String.raw`(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*`,
  // Keys of this repository
  "Slipway key": String.raw`sbx_(?:live|test)_[\w-]+`,
  // Sessions, links that sign in, the model gateway: 43 characters of base62. No digest in hex
  "Slipway token": String.raw`(?<![a-z0-9])(?![0-9a-f]+(?![a-z0-9]))[a-z0-9]{43,}`,
  // standardwebhooks.com; docs.stripe.com/webhooks
  "webhook secret": String.raw`whsec_[\w+/=%-]+`,
  // docs.github.com, About authentication: token formats
  GitHub: String.raw`gh[a-z]_\w{16,}|github_pat_\w+`,
  // docs.gitlab.com, Token overview: prefixes
  GitLab: String.raw`gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|wt|soat|ffct)-[\w.-]{16,}`,
  // OpenAI, Anthropic, OpenRouter, DeepSeek
  "model provider": String.raw`(?:\b|%3D|%20|%22)sk-[\w-]{16,}`,
  // Their consoles, 2026-11
  "xAI, Groq, Perplexity": String.raw`(?:xai-|gsk_|pplx-)[a-z0-9]{32,}`,
  // huggingface.co/docs, User access tokens
  "Hugging Face": String.raw`hf_[a-z0-9]{30,}`,
  // docs.npmjs.com, About access tokens
  npm: String.raw`npm_[a-z0-9]{30,}`,
  // pypi.org/help#apitoken
  PyPI: String.raw`pypi-[\w-]{50,}`,
  // docs.aws.amazon.com, IAM identifiers; and the secret where it is written behind. No digest in hex
  AWS: String.raw`(?:AKIA|ASIA|ABIA|ACCA(?![0-9a-f]{16}))[A-Z0-9]{16}(?:(?:[\s:,"'/|]|%3A|%2C|%20|%22){1,4}(?:[A-Z0-9/+]|%2F|%2B){40})?`,
  // cloud.google.com/docs, API keys and OAuth clients
  Google: String.raw`AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}`,
  // api.slack.com, Token types
  Slack: String.raw`xox[a-z]-[\w-]{10,}|xoxe\.[\w.-]{10,}|xapp-\d-[\w-]{10,}`,
  // api.slack.com, Incoming webhooks
  "Slack webhook": String.raw`(hooks\.slack\.com${SLASH}(?:services|workflows)${SLASH})[\w/%-]+`,
  // docs.stripe.com/keys
  Stripe: String.raw`[rs]k_(?:live|test)_[a-z0-9]{10,}`,
  // docs.sendgrid.com, API keys
  SendGrid: String.raw`SG\.[\w-]{20,30}\.[\w-]{40,50}`,
  // docs.docker.com, Access tokens
  "Docker Hub": String.raw`dckr_(?:pat|oat)_[\w-]{20,}`,
  // docs.digitalocean.com, API tokens
  DigitalOcean: String.raw`do[opr]_v1_[a-f0-9]{40,}`,
  // developer.hashicorp.com/vault, Tokens
  Vault: String.raw`hv[sbr]\.[\w-]{20,}`,
  // shopify.dev, Access tokens
  Shopify: String.raw`shp[a-z]{2,3}_[a-f0-9]{30,}`,
  // vercel.com/docs, Token formats
  Vercel: String.raw`\bvc[a-z]_[a-z0-9]{20,}`,
  // replicate.com/docs, API tokens
  Replicate: String.raw`\br8_[a-z0-9]{30,}`,
  // linear.app/developers
  Linear: String.raw`lin_(?:api|oauth|wh)_[a-z0-9]{20,}`,
  // developers.notion.com, Authentication
  Notion: String.raw`\bntn_[a-z0-9]{30,}|\bsecret_[a-z0-9]{40,}`,
  // tailscale.com/kb, Key prefixes
  Tailscale: String.raw`tskey-[a-z0-9-]{16,}`,
  // docs.sentry.io, Auth tokens
  Sentry: String.raw`sntry[a-z]_[\w+/=-]{20,}`,
  // twilio.com/docs, SIDs and auth tokens: the secret where it is written behind
  Twilio: String
    .raw`(?<![a-z0-9])(?:AC|SK)[a-f0-9]{32}(?![a-z0-9])(?:(?:[\s:,"'/|]|%3A|%2C|%20|%22){1,4}[a-z0-9]{32}(?![a-z0-9]))?`,
  // age-encryption.org/v1
  age: String.raw`AGE-SECRET-KEY-1[A-Z0-9]{50,}`
}
