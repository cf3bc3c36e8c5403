/**
 * A change from its task to its merge: draft, a review comment, a failing check, green, merged. It starts a service with the scripted agent
 * and, in place of GitHub, the server of this repository's tests: nothing leaves the machine. Prints what happens. It takes some minutes,
 * because feedback waits for a minute of quiet.
 */
import { Effect } from "effect"
import { createHmac } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { setTimeout } from "node:timers/promises"
import * as GitHubServer from "../../packages/adapters/github/testing/GitHubServer.ts"
import { environment, start } from "../../packages/slipway/testing/ServiceProcess.ts"

interface Told {
  readonly type: string
  readonly data: { readonly [name: string]: unknown }
}

const SECRET = "the secret of the webhook"
const MARIA = { id: 11, login: "maria" }

const tell = (who: string, what: string) => process.stdout.write(`${who.padEnd(9)} ${what}\n`)

/** Asks again until the answer is wanted. */
const until = async <A>(look: () => Promise<A>, wanted: (value: A) => boolean): Promise<A> => {
  for (let tries = 0; tries < 3_000; tries++) {
    const value = await look()
    if (wanted(value)) return value
    await setTimeout(200)
  }
  throw new Error("It did not happen within 10 minutes.")
}

type GitHub = Effect.Success<ReturnType<typeof GitHubServer.start>>

/** The story, with a service whose data is in `folder`. */
const story = async (folder: string, github: GitHub) => {
  github.app.install("acme")
  const repository = await Effect.runPromise(github.repository("acme/shop", { "README.md": "# Shop\n" }))
  repository.collaborators.push({ ...MARIA, permission: "write" })
  const keyFile = path.join(folder, "app.pem")
  writeFileSync(keyFile, github.app.privateKey, { mode: 0o600 })
  const service = await start({
    dataDir: folder,
    env: environment(folder, {
      SLIPWAY_ISOLATION: "none",
      SLIPWAY_GITHUB_APP_ID: String(github.app.appId),
      SLIPWAY_GITHUB_PRIVATE_KEY_FILE: keyFile,
      SLIPWAY_GITHUB_API_URL: github.apiUrl,
      SLIPWAY_GITHUB_WEBHOOK_SECRET: SECRET
    }),
    seconds: 300
  })
  try {
    await told({ github, repository, service })
  } finally {
    await service.stop("SIGTERM")
  }
}

interface Place {
  readonly github: GitHub
  readonly repository: Effect.Success<ReturnType<GitHub["repository"]>>
  readonly service: Awaited<ReturnType<typeof start>>
}

const told = async ({ repository, service }: Place) => {
  const call = async (address: string, body?: object) => {
    const reply = await fetch(`${service.url}/api/public/v1/sandboxes${address}`, {
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
    })
    if (!reply.ok) throw new Error(`${address}: ${reply.status} ${await reply.text()}`)
    return await reply.json()
  }
  /** As GitHub tells its Apps of a change. */
  const webhook = async (name: string, payload: object) => {
    const body = JSON.stringify({ ...payload, repository: { full_name: "acme/shop" }, sender: { ...MARIA, type: "User" } })
    await fetch(`${service.url}/hooks/source-host`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-github-event": name,
        "x-hub-signature-256": `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`
      },
      body
    })
  }

  tell("person", "creates a sandbox: Add a cart. Feedback: all comments, failing checks.")
  const { id } = await call("", {
    repos: [{ fullName: "acme/shop" }],
    prompt: "Add a cart. [[write path=cart.txt content=one]]",
    feedback: { comments: "all", checks: "failing" }
  })
  const log = async () => {
    const found: Array<Told> = []
    for (let after = "0";;) {
      const { data, nextCursor }: { readonly data: ReadonlyArray<Told>; readonly nextCursor: string } = await call(
        `/${id}/events?after=${after}`
      )
      if (data.length === 0) return found
      found.push(...data)
      after = nextCursor
    }
  }
  const event = async (type: string, nth: number) => {
    const events = await until(log, (all) => all.filter((one) => one.type === type).length >= nth)
    return events.filter((one) => one.type === type)[nth - 1]?.data ?? {}
  }
  await event("turn.completed", 1)
  await call(`/${id}/pull-request`, {})
  const pull = await until(async () => repository.pulls[0], (one) => one !== undefined)
  if (pull === undefined) return
  const shown = () => repository.bare.git(["show", `${pull.headRef}:cart.txt`])
  const payload = { number: pull.number, pull_request: { number: pull.number, head: { ref: pull.headRef } } }
  await until(async () => (await call(`/${id}/pull-request`)).actionState, (state) => state === "idle")
  tell("service", `opens draft #${pull.number}; cart.txt has "${await shown()}".`)

  /** A round of feedback to its end. */
  const round = async (nth: number) => {
    const { authors, kind } = await event("feedback.received", nth)
    tell("service", `feedback.received: ${kind}${String(authors) === "" ? "" : ` by ${String(authors)}`}. The agent's next turn begins.`)
    await event("feedback.replied", nth)
    tell("service", `updates #${pull.number}; cart.txt has "${await shown()}".`)
    const replies = repository.comments.filter(({ user }) => user?.login !== MARIA.login)
    tell("service", `replies (${replies.length} comment): ${replies[0]?.body.split("\n")[0]}`)
  }

  repository.comment(pull.number, { user: MARIA, body: "Two, please. [[write path=cart.txt content=two]]", path: "cart.txt", line: 1 })
  tell("maria", "comments on cart.txt, line 1: Two, please.")
  await webhook("pull_request", { ...payload, action: "synchronize" })
  await round(1)

  const check = async (conclusion: "failure" | "success") => {
    await repository.settle()
    repository.checkRuns.length = 0
    repository.checkRun(pull.headSha, {
      name: "test",
      status: "completed",
      conclusion,
      completedAt: repository.instant(),
      annotations: conclusion === "success" ? [] : [{
        path: "cart.txt",
        line: 1,
        message: "Expected three. [[write path=cart.txt content=three]]"
      }]
    })
    tell("check", `test: ${conclusion}`)
    await webhook("pull_request", { ...payload, action: "synchronize" })
  }
  await check("failure")
  await round(2)
  await check("success")

  await repository.merge(pull.headRef, "trunk")
  tell("maria", `merges #${pull.number}.`)
  await webhook("pull_request", { ...payload, action: "closed" })
  await until(log, (all) => all.some(({ data, type }) => type === "pull_request.updated" && data["merged"] === true))
  const events = await log()
  const count = (type: string) => events.filter((one) => one.type === type).length
  tell("service", `knows: merged. ${count("turn.started")} turns, ${count("feedback.replied")} rounds.`)
}

const folder = mkdtempSync(path.join(tmpdir(), "slipway-story-"))
try {
  await Effect.runPromise(
    Effect.scoped(Effect.flatMap(GitHubServer.start({ readsBeforeMergeable: 0 }), (github) => Effect.promise(() => story(folder, github))))
  )
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
}
