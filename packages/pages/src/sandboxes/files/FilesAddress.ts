/** The parts that addresses of a sandbox's files have in common, and the links to them. */
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { Refused } from "../../layout/Refused.ts"

const isRepo = Schema.is(RepoName)

/** The repository that `repo` names; without it, the first one of the sandbox. */
export const repoOf = ({ repos }: Sandbox, { searchParams }: URL): Effect.Effect<RepoName, Refused> => {
  const wanted = searchParams.get("repo")
  const named = wanted === null ? repos[0] : repos.find(({ fullName }) => isRepo(wanted) && sameRepo(fullName, wanted))
  return named === undefined
    ? Effect.fail(Refused.notFound("This sandbox has no repository of that name."))
    : Effect.succeed(named.fullName)
}

/** How many items come before the first shown one: `after`. */
export const afterOf = ({ searchParams }: URL, refusal = "This link is out of date."): Effect.Effect<number, Refused> => {
  const given = searchParams.get("after") ?? "0"
  return /^\d{1,9}$/u.test(given) ? Effect.succeed(Number(given)) : Effect.fail(Refused.bad(refusal))
}

/** Nothing, for a sandbox of one repository. */
export const repositoryLinks = ({ repos }: Sandbox, repo: RepoName, addressOf: (repo: RepoName) => string): Html | false => {
  const places = repos.map(({ fullName }) =>
    html`
<li><a href="${addressOf(fullName)}"${fullName === repo && html` aria-current="page"`}>${fullName}</a></li>`
  )
  return places.length > 1 && html`<nav aria-label="Repositories"><ul class="places">${places}
</ul></nav>`
}
