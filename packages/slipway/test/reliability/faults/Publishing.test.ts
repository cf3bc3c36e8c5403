/** Publications to a GitHub that fails, asked for five times at once, and a worker that is killed while it pushes. */
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { refuse } from "@slipway/github/testing/Routes"
import { Effect } from "effect"
import { setTimeout as pause } from "node:timers/promises"
import { folder, gitHubApp } from "../../commands/SlipwayProcess.ts"
import { visibleOf } from "../service/Leaks.ts"
import { fault, type Found, plant, ROUNDS } from "./Battery.ts"
import type { World } from "./World.ts"
import * as Worlds from "./World.ts"

const { SANDBOXES, eventually, tally, times } = Worlds

const REPO = "Acme/Shop"

type GitHub = Effect.Success<ReturnType<typeof GitHubServer.start>>
type Repository = Effect.Success<ReturnType<GitHub["repository"]>>
let gitHub: { readonly server: GitHub; readonly repository: Repository }

const world = Worlds.shared(Effect.gen(function*() {
  const server = yield* GitHubServer.start()
  server.app.install("Acme")
  gitHub = { server, repository: yield* server.repository(REPO, { "README.md": "# Shop\n" }) }
  return { name: "publishing", settings: gitHubApp(yield* folder, server) }
}))
const { swept } = Worlds.cases(world)

/** One branch of the sandbox and one draft from it, that its log and its page know. */
const published = async (real: World, id: string): Promise<Array<string>> => {
  const { repository } = gitHub
  const branches = [...(await repository.bare.branches()).keys()].filter((name) => name.includes(id))
  const pulls = repository.pulls.filter(({ headRef }) => headRef.includes(id))
  const lost: Array<string> = []
  if (branches.length !== 1) lost.push(`${id} has ${branches.length} branches: ${branches.join(", ")}`)
  if (pulls.length !== 1 || !pulls.every(({ draft }) => draft)) lost.push(`${id} has ${pulls.length} pull requests`)
  const { said } = await real.ask(real.urls[1], `${SANDBOXES}/${id}/pull-request`, { key: real.key })
  if (said.pullRequest?.number !== pulls[0]?.number) lost.push(`${id} knows another pull request: ${said.pullRequest?.number}`)
  return lost
}

const changed = async (real: World) => {
  const id = await Worlds.create(real, "[[write path=CHANGES.md content=more]]", { repos: [{ fullName: REPO }] })
  await Worlds.turnEnd(real, id)
  return id
}

/** Asks five times at once at both processes; the statuses. */
const ask = async (real: World, id: string) =>
  (await Promise.all(
    times(5).map((i) => real.ask(real.urls[i % 2] ?? "", `${SANDBOXES}/${id}/pull-request`, { key: real.key, body: {} }))
  )).map(({ status }) => status)

const statusOf = async (real: World, id: string) =>
  (await real.ask(real.urls[0], `${SANDBOXES}/${id}/pull-request`, { key: real.key })).said

/** Asks again where it failed, until there is a pull request. How often it failed. */
const insist = async (real: World, id: string) => {
  let failures = 0
  await eventually(`a pull request of ${id}`, 180_000, async () => {
    const { actionState, pullRequest } = await statusOf(real, id)
    if (actionState === "failed") {
      failures++
      await pause(1_000)
      await ask(real, id)
    }
    return actionState === "idle" && pullRequest !== null ? true : null
  })
  return failures
}

const opens = { method: "POST", url: /\/pulls$/u } as const
const pushes = { method: "POST", url: /\/git-receive-pack$/u } as const

interface Trouble {
  readonly name: string
  readonly begin: (server: GitHub) => void
  /** The worker is killed when this request arrived. */
  readonly kills?: { readonly method: string; readonly url: RegExp }
}

const troubles: ReadonlyArray<Trouble> = [
  { name: "none", begin: () => {} },
  { name: "the worker killed before its push arrives", begin: (server) => server.strike({ ...pushes, outcome: "hang" }), kills: pushes },
  {
    name: "the worker killed when its push has arrived",
    begin: (server) => server.strike({ ...pushes, when: "after", outcome: "hang" }),
    kills: pushes
  },
  {
    name: "the worker killed when the pull request is open",
    begin: (server) => server.strike({ ...opens, when: "after", outcome: "hang" }),
    kills: opens
  },
  { name: "502 before the pull request is open", begin: (server) => server.strike({ ...opens, outcome: refuse(502, "Server Error") }) },
  {
    name: "502 when it is open",
    begin: (server) => server.strike({ ...opens, when: "after", outcome: refuse(502, "Server Error") })
  },
  { name: "409", begin: (server) => server.strike({ ...opens, outcome: refuse(409, "Conflict") }) },
  { name: "a secondary limit", begin: (server) => server.strike({ ...opens, outcome: GitHubServer.secondaryLimit(403, 1) }) },
  {
    name: "a limit on tokens",
    begin: (server) => server.strike({ method: "POST", url: /\/access_tokens$/u, outcome: GitHubServer.secondaryLimit(429, 1) })
  }
]

const run = (body: (real: World) => Promise<Found>) =>
  Effect.flatMap(
    world,
    (real) => Effect.tryPromise({ try: () => body(real), catch: (error) => error instanceof Error ? error : new Error(String(error)) })
  )

plant(
  "22 a publication leaves a second branch and a second pull request",
  [],
  run(async (real) => {
    const id = await changed(real)
    await ask(real, id)
    await insist(real, id)
    const { repository } = gitHub
    const headRef = `slipway/${id}-2`
    const headSha = await repository.commit(headRef, { "CHANGES.md": "more" })
    const [first] = repository.pulls.filter((pull) => pull.headRef.endsWith(id))
    if (first === undefined) throw new Error("there is no pull request")
    await repository.open({ ...first, headRef, headSha })
    return { done: "somebody else published the sandbox as well", lost: await published(real, id) }
  })
)

fault(
  "22 five publications at once, to a GitHub that fails and by a worker that is killed while it pushes (long)",
  [],
  run(async (real) => {
    const { server } = gitHub
    server.watch(() => visibleOf(process.pid).commandLines.split("\n").forEach((line) => real.commandLines.add(line)))
    const lost: Array<string> = []
    const statuses: Array<number> = []
    const backMillis: Array<number> = []
    let failures = 0
    const chosen = ROUNDS < 20 ? troubles.slice(0, 5) : troubles
    for (const { begin, kills, name } of chosen) {
      const id = await changed(real)
      begin(server)
      const before = server.requests.length
      const asking = ask(real, id)
      if (kills !== undefined) {
        const isThere = () => server.requests.slice(before).some(({ method, url }) => method === kills.method && kills.url.test(url))
        await eventually(`the request of ${name}`, 60_000, async () => isThere() ? true : null)
        // A request whose answer is lost has taken effect by then.
        await pause(300)
        await real.worker.kill()
        await real.worker.start()
      }
      const began = Date.now()
      statuses.push(...await asking)
      failures += await insist(real, id)
      if (kills !== undefined) backMillis.push(Date.now() - began)
      lost.push(...(await published(real, id)).map((line) => `${name}: ${line}`))
      await Worlds.terminate(real, id)
    }
    // Callers are told of the host's failure, and of its limit.
    const strange = statuses.filter((status) => ![200, 502, 503].includes(status))
    if (strange.length > 0) lost.push(`publications were answered ${tally(strange)}`)
    const tokens = server.app.issued.length
    for (const [i, token] of server.app.issued.entries()) real.secrets[`GitHub token ${i}`] = token
    real.secrets["the App's private key"] = server.app.privateKey.split("\n")[3] ?? ""
    const names = chosen.map(({ name }) => name).join("; ")
    return {
      done: `${names}: answered ${tally(statuses)}, asked again after ${failures} failures; ${tokens} tokens`,
      lost,
      backMillis,
      // A lease, and a publication.
      withinMillis: 60_000
    }
  })
)

swept()
