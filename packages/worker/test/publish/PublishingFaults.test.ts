/** GitHub fails while a worker publishes: what the sandbox is told, and that asking again is all it takes. */
import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { refuse } from "@slipway/github/testing/Routes"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import * as World from "./World.ts"

type GitHub = Effect.Success<ReturnType<typeof World.gitHubOrigin>>

interface Trouble {
  readonly name: string
  readonly begin: (host: GitHub) => void
  readonly end?: (host: GitHub) => void
  /** The code of the reported error; `null`: the publication goes through all the same. */
  readonly code: "source_host_error" | "repo_not_accessible" | "unavailable" | null
  readonly message?: RegExp
  readonly retryAfter?: number
  /** No answer comes to this request. */
  readonly silent?: RegExp
}

const opens = { method: "POST", url: /\/pulls$/u } as const
const pushes = { method: "POST", url: /\/git-receive-pack$/u } as const

const troubles: ReadonlyArray<Trouble> = [
  ...(["before", "after"] as const).flatMap((when): ReadonlyArray<Trouble> => [
    {
      name: `a server error ${when} the pull request is opened`,
      begin: ({ server }) => server.strike({ ...opens, when, outcome: refuse(502, "Server Error") }),
      code: "source_host_error",
      message: /open the pull request: GitHub says: Server Error/u
    },
    {
      name: `a connection that breaks ${when} the pull request is opened`,
      begin: ({ server }) => server.strike({ ...opens, when, outcome: "reset" }),
      code: "source_host_error",
      message: /connection to .* failed/u
    },
    {
      name: `silence ${when} the pull request is opened`,
      begin: ({ server }) => server.strike({ ...opens, when, outcome: "hang" }),
      code: "source_host_error",
      message: /did not answer within 30 seconds/u,
      silent: opens.url
    }
  ]),
  {
    name: "a connection that breaks before the push arrives",
    begin: ({ server }) => server.strike({ ...pushes, outcome: "reset", times: 2 }),
    code: "source_host_error",
    message: /connection to the source host failed/u
  },
  {
    name: "a connection that breaks after the push has arrived",
    begin: ({ server }) => server.strike({ ...pushes, when: "after", outcome: "reset" }),
    code: null
  },
  {
    name: "a token that is revoked before the push",
    begin: ({ server }) => server.strike({ method: "GET", url: /info\/refs\?service=git-receive-pack/u, outcome: "revoke" }),
    code: "source_host_error",
    message: /refused access/u
  },
  {
    name: "a token that is revoked before the pull request is opened",
    begin: ({ server }) => server.strike({ ...opens, outcome: "revoke" }),
    code: null
  },
  {
    name: "a limit on requests that create something",
    begin: ({ server }) => server.strike({ ...opens, outcome: GitHubServer.secondaryLimit(403, 42) }),
    code: "unavailable",
    retryAfter: 42
  },
  {
    name: "a limit on requests for tokens",
    begin: ({ server }) => server.strike({ method: "POST", url: /\/access_tokens$/u, outcome: GitHubServer.secondaryLimit(429, 7) }),
    code: "unavailable",
    retryAfter: 7
  },
  {
    name: "a plan without drafts",
    begin: ({ repository }) => void (repository.drafts = false),
    end: ({ repository }) => void (repository.drafts = true),
    code: "source_host_error",
    message: /The plan of Acme has no draft pull requests.*change to a plan that has them/u
  },
  {
    name: "a repository that is taken from the installation",
    begin: ({ installation }) => void (installation.repositories = ["other"]),
    end: ({ installation }) => void (installation.repositories = "all"),
    code: "repo_not_accessible"
  }
]

it.layer(World.Database.layer)("publishing meets", (it) => {
  /** Publishes amid `trouble`, and again when it is over. */
  const meet = Effect.fnUntraced(function*(trouble: Trouble, during: (host: GitHub) => World.Origin) {
    const host = yield* World.gitHubOrigin()
    const { directory, id, lease } = yield* (yield* World.sandboxes(host)).next
    trouble.begin(host)
    yield* World.ask(id)
    const publishing = yield* Effect.forkChild(World.carryOut(directory, during(host), lease))
    if (trouble.silent !== undefined) {
      yield* host.server.arrived("POST", trouble.silent)
      yield* TestClock.adjust("30 seconds")
    }
    yield* Fiber.join(publishing)
    const told = (yield* World.updates(id)).at(-1)?.data
    if (trouble.code === null) assert.deepInclude(told, { action_state: "idle" })
    else {
      assert(told?.action_state === "failed" && told.error !== undefined)
      assert.strictEqual(told.error.code, trouble.code)
      assert.match(told.error.message, trouble.message ?? /./u)
      assert.strictEqual(told.error.retry_after, trouble.retryAfter)
    }
    trouble.end?.(host)
    if (trouble.code !== null) {
      yield* World.ask(id)
      yield* World.carryOut(directory, host, lease)
    }
    yield* World.assertPublished(host, id, "work")
  })

  for (const trouble of troubles) {
    it.effect(`${trouble.name}: ${trouble.code ?? "nothing is told"}, and one pull request in the end`, () => meet(trouble, (host) => host))
  }

  it.effect("a host that is down: source_host_error, and one pull request in the end", () =>
    Effect.gen(function*() {
      const { apiUrl } = yield* Effect.scoped(GitHubServer.start())
      yield* meet({ name: "", begin: () => {}, code: "source_host_error", message: /ECONNREFUSED/u }, (host) => ({
        ...host,
        settings: { host: { ...host.settings.host, kind: "github", apiUrl } }
      }))
    }))
})
