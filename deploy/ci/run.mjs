// Runs a prompt in a sandbox from a CI job and publishes the changes as a draft pull request. Needs Node 20 or newer and nothing else.
// Used by action.yml (GitHub Actions) and, as a copy, by gitlab.yml (GitLab CI). docs/operating/ci.md describes its variables.
import { createHash, randomUUID } from "node:crypto"
import { appendFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"

const env = (name, otherwise = "") => process.env[name] || otherwise

/** Ends the job with one line that says what to do. */
class Failed extends Error {}

const required = (name, value, advice) => {
  if (value === "") throw new Failed(`${name} is missing: ${advice}`)
  return value
}

const isGitHub = env("GITHUB_ACTIONS") === "true"

/** Milliseconds between two looks at the sandbox. */
const LOOK = 3000
/** A key lasts ten minutes. A new one is taken well before. */
const KEY_LASTS = 8 * 60_000
/** Requests that fail for this long end the job. */
const PATIENCE = 3 * 60_000
const REQUEST_TIMEOUT = 30_000
const MAX_SUMMARY = 4000

// Texts of agents and strangers ---------------------------------------------------------------------------------------

/** One line without control characters, and nothing that a runner of CI jobs takes for a command. */
const line = (text) =>
  `${text}`.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ").replaceAll("##[", "## [").replaceAll("::", ": :").trim().slice(0, 500)

/** Text of a summary as code, which Markdown leaves alone. */
const quoted = (text) => {
  const plain = text.replaceAll(/[^\P{Cc}\n]/gu, "").slice(0, MAX_SUMMARY)
  const fence = "`".repeat(Math.max(3, ...Array.from(plain.matchAll(/`+/gu), ([ticks]) => ticks.length + 1)))
  return `${fence}text\n${plain}\n${fence}\n`
}

const say = (text) => process.stdout.write(`${line(text)}\n`)

// The server ----------------------------------------------------------------------------------------------------------

const serverOf = () => {
  const url = required("SLIPWAY_URL", env("SLIPWAY_URL"), "set it to the address of your Slipway server.")
  if (!URL.canParse(url) || !/^https?:$/u.test(new URL(url).protocol)) {
    throw new Failed("SLIPWAY_URL is not an address such as https://slipway.example.com")
  }
  return url.replace(/\/$/u, "")
}

/** The token that proves which run this is. */
const idToken = async (audience) => {
  if (env("SLIPWAY_ID_TOKEN") !== "") return env("SLIPWAY_ID_TOKEN")
  const address = required(
    "An OIDC token",
    env("ACTIONS_ID_TOKEN_REQUEST_URL"),
    isGitHub ? "give the job the permission `id-token: write`." : "declare SLIPWAY_ID_TOKEN below id_tokens of the job."
  )
  const url = new URL(address)
  url.searchParams.set("audience", audience)
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${env("ACTIONS_ID_TOKEN_REQUEST_TOKEN")}` },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT)
  })
  if (!response.ok) throw new Failed(`The CI gave no OIDC token (status ${response.status}).`)
  return (await response.json()).value
}

let key = { value: env("SLIPWAY_API_KEY"), until: env("SLIPWAY_API_KEY") === "" ? 0 : Infinity }

const exchange = async (server) => {
  const body = new URLSearchParams({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    subject_token: await idToken(env("SLIPWAY_AUDIENCE", server))
  })
  const response = await fetch(`${server}/api/internal/v1/token-exchange`, {
    method: "POST",
    body,
    redirect: "error",
    signal: AbortSignal.timeout(REQUEST_TIMEOUT)
  })
  const reply = await response.json().catch(() => ({}))
  if (response.status === 400) {
    throw new Failed(
      `The server gives this run no key: ${reply.error_description ?? reply.error}. An owner allows it with: slipway ci-trust add`
    )
  }
  if (!response.ok) throw new Error(`token exchange: status ${response.status}`)
  if (isGitHub) process.stdout.write(`::add-mask::${reply.access_token}\n`)
  key = { value: reply.access_token, until: Date.now() + KEY_LASTS }
}

/** The JSON of a reply. Repeats while the server cannot be reached; every request is safe to repeat. */
const call = async (server, method, path, { body, headers = {} } = {}) => {
  const end = Date.now() + PATIENCE
  for (let failures = 0;; failures++) {
    let problem
    try {
      if (Date.now() > key.until) await exchange(server)
      const response = await fetch(server + path, {
        method,
        redirect: "error",
        headers: {
          ...headers,
          authorization: `Bearer ${key.value}`,
          ...(body === undefined ? {} : { "content-type": "application/json" })
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(REQUEST_TIMEOUT)
      })
      const reply = await response.json().catch(() => null)
      if (response.ok) return reply
      const { code = "", message = response.statusText } = reply?.error ?? {}
      if (response.status < 500 && response.status !== 429) {
        throw Object.assign(new Failed(`${message} (${response.status} ${code})`), { code })
      }
      problem = `status ${response.status} ${code}`
    } catch (error) {
      if (error instanceof Failed) throw error
      problem = error.cause?.message ?? error.message
    }
    if (Date.now() > end) throw new Failed(`${server} cannot be reached: ${problem}`)
    if (failures === 0) say(`${server} cannot be reached (${problem}); trying again for 3 minutes.`)
    await sleep(Math.min(1000 * 2 ** failures, 15_000))
  }
}

// The run -------------------------------------------------------------------------------------------------------------

const repository = () =>
  required(
    "SLIPWAY_REPO",
    env("SLIPWAY_REPO", env("GITHUB_REPOSITORY", env("CI_PROJECT_PATH"))),
    "name the repository as the server knows it, such as acme/web."
  )

const requestOf = () => {
  const budget = env("SLIPWAY_BUDGET_USD")
  if (budget !== "" && !(Number(budget) > 0)) throw new Failed("SLIPWAY_BUDGET_USD is an amount in US dollars such as 2.50")
  return {
    repos: [{ fullName: repository(), ...(env("SLIPWAY_REF") === "" ? {} : { ref: env("SLIPWAY_REF") }) }],
    prompt: required("SLIPWAY_PROMPT", env("SLIPWAY_PROMPT"), "say what the agent should do."),
    ...(env("SLIPWAY_TITLE") === "" ? {} : { title: env("SLIPWAY_TITLE") }),
    ...(env("SLIPWAY_MODEL") === "" ? {} : { model: env("SLIPWAY_MODEL") }),
    ...(budget === "" ? {} : { budgetMicroUsd: Math.round(Number(budget) * 1e6) })
  }
}

/** The same for a repeated request of this run, so that no second sandbox is created; another one for a new attempt of the job. */
const idempotencyKey = (request) => {
  const parts = isGitHub ? ["GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "GITHUB_ACTION"] : ["CI_PROJECT_ID", "CI_JOB_ID"]
  const names = parts.map((name) => env(name))
  if (names.includes("")) return randomUUID()
  return `ci-${createHash("sha256").update(JSON.stringify([names, request])).digest("hex")}`
}

const LIVE = ["queued", "creating", "running"]

/** The line of the event in the log; `null`: none. */
const textOf = ({ data, type }, page) => {
  switch (type) {
    case "sandbox.status":
      return `Sandbox: ${data.status}${data.reason ? ` (${data.reason})` : ""}`
    case "turn.completed":
      return `Turn: ${data.state}${data.reason ? ` (${data.reason})` : ""}`
    case "approval.requested":
      return `The agent waits for an approval: ${page}`
    case "question.asked":
      return `The agent asks a question. Answer it: ${page}`
    default:
      return null
  }
}

/** Prints events until the first turn has ended, or the sandbox. */
const follow = async (server, id, page, deadline) => {
  let after = "0"
  let said = ""
  const tools = new Set()
  const path = `/api/public/v1/sandboxes/${id}`
  for (;;) {
    const { data, nextCursor } = await call(server, "GET", `${path}/events?after=${after}&limit=100`)
    after = nextCursor ?? after
    for (const event of data) {
      const text = textOf(event, page)
      if (text !== null) say(text)
      if (event.type === "tool.updated" && !tools.has(event.data.call_id)) {
        tools.add(event.data.call_id)
        say(`Tool: ${event.data.tool}`)
      }
      if (event.type === "message.updated" && event.data.kind === "text") said = event.data.text
      if (event.type === "turn.completed") return { state: event.data.state, said }
      if (event.type === "sandbox.status" && event.data.status && !LIVE.includes(event.data.status)) {
        return { state: event.data.status, said }
      }
    }
    if (data.length === 100) continue
    if (Date.now() > deadline) throw new Failed(`The turn did not end in time. It goes on: ${page}`)
    await sleep(LOOK)
  }
}

/** The pull request; `null`: there are no changes. */
const publish = async (server, id, repo) => {
  const path = `/api/public/v1/sandboxes/${id}/pull-request`
  try {
    let status = await call(server, "POST", path, { body: { repo } })
    while (status.actionState === "publishing" || status.actionState === "updating") {
      await sleep(LOOK)
      status = await call(server, "GET", `${path}?repo=${encodeURIComponent(repo)}`)
    }
    if (status.actionState === "failed" || status.pullRequest === null) throw new Failed("The changes could not be published.")
    return status.pullRequest
  } catch (error) {
    // The reply for no changes.
    if (error.code === "invalid_request") return null
    throw error
  }
}

const output = (name, value) => {
  if (env("GITHUB_OUTPUT") !== "") appendFileSync(env("GITHUB_OUTPUT"), `${name}=${line(value)}\n`)
}

const summarize = ({ page, pull, sandbox, said, state }) => {
  const rows = [
    `| Sandbox | [${sandbox.id}](${page}) |`,
    `| Turn | ${state} |`,
    `| Pull request | ${pull === null ? "no changes" : `[#${pull.number}](${pull.url}), +${pull.additions} −${pull.deletions}`} |`,
    `| Cost | $${(sandbox.usage.costMicroUsd / 1e6).toFixed(2)} |`
  ]
  const text = `### Slipway\n\n| | |\n|---|---|\n${rows.join("\n")}\n\n${said === "" ? "" : quoted(said)}`
  if (env("GITHUB_STEP_SUMMARY") !== "") appendFileSync(env("GITHUB_STEP_SUMMARY"), text)
  // GitLab shows variables of a dotenv report to later jobs, and no summary.
  if (env("SLIPWAY_DOTENV") !== "") {
    appendFileSync(env("SLIPWAY_DOTENV"), `SLIPWAY_SANDBOX_ID=${sandbox.id}\nSLIPWAY_PULL_REQUEST=${pull?.url ?? ""}\n`)
  }
}

const run = async () => {
  const server = serverOf()
  const request = requestOf()
  const deadline = Date.now() + 60_000 * Number(env("SLIPWAY_TIMEOUT_MINUTES", "60"))
  // A cancelled job ends its sandbox, also one that is being created.
  const sandbox = { path: "", isCancelled: false }
  const end = () => void call(server, "POST", `${sandbox.path}/terminate`).catch(() => undefined).finally(() => process.exit(130))
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => {
      sandbox.isCancelled = true
      if (sandbox.path !== "") end()
    })
  }
  const created = await call(server, "POST", "/api/public/v1/sandboxes", {
    body: request,
    headers: { "idempotency-key": idempotencyKey(request) }
  })
  const { id } = created
  const page = `${server}/sandboxes/${id}`
  const path = `/api/public/v1/sandboxes/${id}`
  sandbox.path = path
  if (sandbox.isCancelled) end()
  say(`Sandbox ${id}: ${page}`)
  output("sandbox-id", id)
  const { said, state } = await follow(server, id, page, deadline)
  const pull = state === "succeeded" && env("SLIPWAY_PUBLISH", "true") === "true"
    ? await publish(server, id, request.repos[0].fullName)
    : null
  summarize({ page, pull, said, state, sandbox: await call(server, "GET", path) })
  output("pull-request", pull?.url ?? "")
  output("state", state)
  if (pull !== null) say(`Draft pull request: ${pull.url}`)
  else if (state === "succeeded") say("No changes were published.")
  if (env("SLIPWAY_END") === "true") await call(server, "POST", `${path}/terminate`)
  if (state !== "succeeded") throw new Failed(`The turn ended as ${state}. See ${page}`)
}

run().catch((error) => {
  if (!(error instanceof Failed)) throw error
  process.stdout.write(`${isGitHub ? "::error::" : ""}${line(error.message)}\n`)
  process.exitCode = 1
})
