/** A host that takes a push, whole, and never answers it. */
import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { Effect } from "effect"
import { folder, gitHubApp, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

it.live("a git push accepted and then hanging: it is given up in time, and there is one branch and one pull request", () =>
  Effect.gen(function*() {
    const github = yield* GitHubServer.start()
    github.app.install("Acme")
    const shop = yield* github.repository("acme/shop", { "README.md": "# Shop\n" })
    const data = yield* folder
    const server = yield* serve(data, gitHubApp(data, github))
    const api = Api.make(server)
    const branches = Effect.map(
      Effect.promise(() => shop.bare.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/slipway"])),
      (said) => said.split("\n").filter((name) => name !== "")
    )
    const id = yield* api.create({ prompt: "[[write path=a.txt content=a]]" })
    yield* api.event(id, "sandbox.checkpoint")

    github.strike({ method: "POST", url: /\/git-receive-pack$/u, when: "after", outcome: "hang" })
    const asked = fetch(`${server.url}/api/public/v1/sandboxes/${id}/pull-request`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
      body: "{}"
    }).then((reply) => reply.text(), () => "")
    // It arrived.
    yield* until(branches, (names) => names.length === 1)
    // Meanwhile the sandbox works on.
    yield* api.send(id, "[[write path=b.txt content=b]]")
    yield* api.event(id, "turn.completed", 2)
    // No new request is needed: git gives up on a silent host, and the arrived commits are found.
    const published = yield* until(api.pull(id), ({ actionState }) => actionState !== "publishing")
    yield* Effect.promise(() => asked)
    assert.deepStrictEqual([published.actionState, published.pullRequest?.number], ["idle", 1])

    yield* api.publish(id)
    const { pullRequest } = yield* until(api.pull(id), ({ actionState }) => actionState === "idle")
    assert.deepStrictEqual(yield* branches, [`slipway/${id}`])
    assert.deepStrictEqual(shop.pulls.map(({ number }) => number), [pullRequest?.number])
    const names = yield* Effect.promise(() => shop.bare.git(["ls-tree", "--name-only", `slipway/${id}`]))
    assert.deepStrictEqual(names.trim().split("\n"), ["README.md", "a.txt", "b.txt"])
  }).pipe(Effect.scoped))
