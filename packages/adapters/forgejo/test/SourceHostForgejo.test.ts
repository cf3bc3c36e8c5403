import * as SourceHostContract from "@slipway/testing/contracts/source/SourceHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect } from "effect"
import { layer, repository, TestForgejo } from "./TestForgejo.ts"

const fixture: SourceHostContract.Fixture<TestForgejo> = {
  repository: Effect.fnUntraced(function*(files) {
    const { users } = yield* TestForgejo
    const { fullName, repository: there } = yield* repository(files)
    there.collaborators.push({ id: 7, login: "Ada", permission: "write" }, { id: 8, login: "bob", permission: "read" })
    if (!users.some(({ id }) => id === 9)) users.push({ id: 9, login: "carol" })
    there.labels.push({ id: there.nextId(), name: "needs review" })
    return {
      fullName,
      // The server keeps 255 bytes, and "WIP: " is part of them.
      longestTitle: 250,
      reviewing: {
        label: "needs review",
        team: "acme/payments",
        of: (number) =>
          Effect.sync(() => {
            const issue = there.issue(number)
            return { labels: Array.from(issue?.labels ?? [], ({ name }) => name), reviewers: issue?.pull?.reviewers.size ?? 0 }
          })
      },
      accounts: {
        writer: { id: "7", login: "ada" },
        reader: { id: "8", login: "bob" },
        stranger: { id: "9", login: "carol" },
        renamed: { id: "10", login: "ada" }
      },
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      merge: (head, base) => Effect.promise(() => there.merge(head, base)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      protect: (branch) => Effect.sync(() => void there.protectedBranches.add(branch)),
      openFromFork: (fork) =>
        Effect.promise(async () => {
          const sha = (await there.bare.branches()).get("trunk") ?? ""
          const pull = { baseRef: "trunk", mergeBase: sha, headRef: "main", headSha: sha, fork, counts: await there.bare.counts(sha, sha) }
          return there.open({ title: "From a fork", body: "", user: { id: 9, login: "someone" }, pull }).number
        }),
      comment: (number, { line = 0, path, text }) =>
        Effect.sync(() => {
          const user = { id: 9, login: "someone" }
          if (path === undefined) there.entry(number, { user, body: text })
          else there.review(number, user, "", [{ path, line, text }])
        })
    }
  })
}

register(SourceHostContract.suite("forgejo", layer(), fixture))
register(
  SourceHostContract.suite("gitea, below a path, with short pages", layer({ flavour: "gitea", prefix: "/git", pageLimit: 1 }), fixture)
)
