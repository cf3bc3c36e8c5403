/** `/sandboxes/:id/changes`: what the agent changed since the commit it started from. */
import type { Principal } from "@slipway/domain/access/Principal"
import { principalOf } from "@slipway/domain/access/Session"
import { Files } from "@slipway/domain/files/Files"
import type { ChangedFile, ChangedFiles, PartialWarning } from "@slipway/domain/files/FileTree"
import type { FileVersion } from "@slipway/domain/files/WorkingTrees"
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { isProtected } from "@slipway/domain/source/FileRules"
import { RepoName, sameRepo } from "@slipway/domain/source/RepoRef"
import { Effect, Schema } from "effect"
import { columnHeads, html, type Html, nothing } from "../Html.ts"
import * as Page from "../Page.ts"
import { Refused } from "../Refused.ts"
import * as Diff from "./Diff.ts"
import { idOf, noSandbox } from "./SandboxPage.ts"

const isRepo = Schema.is(RepoName)

const WARNINGS: Record<PartialWarning, string> = {
  entries_truncated: "There are more changes than are shown here.",
  unreadable_entries: "The changes could not be read. The agent may have made something that git gives up on.",
  invalid_names: "Files whose names are no text are left out."
}

const AWAY = "The sandbox's worker cannot be reached just now. Load the page again in a moment."

/** Characters of a line that are shown; the rest of a minified file says nothing to people. */
const MAX_LINE = 400
/** Lines of one file that are shown. */
const MAX_SHOWN = 2_000

const CONTENT = { context: [" ", "unchanged"], added: ["+", "added"], removed: ["−", "removed"] } as const

/** What of a line is shown. Its end is, where it is not a plain line feed and the line changed. */
const lineText = ({ kind, text }: Diff.Line): Html => {
  const [ending = ""] = /\r?\n$/u.exec(text) ?? []
  const whole = text.slice(0, text.length - ending.length)
  const characters = whole.length > MAX_LINE ? Array.from(whole) : null
  const cut = characters === null || characters.length <= MAX_LINE ? 0 : characters.length - MAX_LINE
  const shown = cut === 0 || characters === null ? whole : characters.slice(0, MAX_LINE).join("")
  const more = cut > 0 && html`<span class="aside"> … ${cut} more characters</span>`
  const carriageReturn = kind !== "context" && ending === "\r\n" && html`<span class="aside"> CR LF</span>`
  const noEnd = ending === "" && html`<span class="aside"> no line end at the end of the file</span>`
  return html`${shown}${more}${carriageReturn}${noEnd}`
}

const rowOf = (line: Diff.Line): Html => {
  const [sign, name] = CONTENT[line.kind]
  const signed = line.kind !== "context" && html`<span aria-hidden="true">${sign}</span><span class="unseen">${name}</span>`
  const numbers = html`<td class="number">${line.before}</td><td class="number">${line.after}</td>`
  return html`<tr class="${line.kind}">${numbers}<td class="sign">${signed}</td><td class="line"><code>${lineText(line)}</code></td></tr>
`
}

const diffTable = (path: string, { coarse, hunks }: Diff.Diff): Html => {
  let left = MAX_SHOWN
  const shown = hunks.map((hunk) => {
    const lines = hunk.slice(0, left)
    left -= lines.length
    return { header: Diff.headerOf(hunk), lines }
  }).filter(({ lines }) => lines.length > 0)
  const hidden = hunks.reduce((sum, hunk) => sum + hunk.length, 0) - shown.reduce((sum, { lines }) => sum + lines.length, 0)
  const bodies = shown.map(({ header, lines }) =>
    html`<tbody><tr class="hunk"><td colspan="4">${header}</td></tr>
${lines.map(rowOf)}</tbody>`
  )
  return html`${coarse && html`<p class="warning">Too much changed to compare it line by line.</p>`}
<div class="diff-box" tabindex="0" role="region" aria-label="Changed lines of ${path}">
<table class="diff"><caption class="unseen">Changed lines of ${path}</caption>
<thead class="unseen"><tr>${columnHeads("Line before", "Line now", "Change", "Text")}</tr></thead>
${bodies}
</table></div>
${hidden > 0 && html`<p class="warning">${hidden} more lines are not shown.</p>`}`
}

const versions = (base: FileVersion, working: FileVersion, path: string): Html => {
  if (base === null && working === null) return html`<p>There is no such file.</p>`
  if (base?.binary === true || working?.binary === true) {
    const before = base === null ? "new" : `${base.size} bytes before`
    const now = working === null ? "deleted" : `${working.size} bytes now`
    return html`<p>A binary file: ${before}, ${now}.</p>`
  }
  const diff = Diff.compare(base?.content ?? "", working?.content ?? "")
  return diff.hunks.length === 0 ? html`<p>Its text is the same as where the sandbox started.</p>` : diffTable(path, diff)
}

/** Of each line that `status` says. */
const counts = ({ additions, deletions, path, previousPath, status }: ChangedFile): Html => {
  if (isProtected(path)) return html`<span class="fine">protected: not shown</span>`
  const renamed = previousPath !== null && status === "renamed" && html` <span class="fine">was ${previousPath}</span>`
  return html`<span class="added-count">+${additions} <span class="unseen">lines added</span></span>
<span class="removed-count">−${deletions} <span class="unseen">lines removed</span></span>${renamed}`
}

const linkOf = (sandbox: Sandbox, repo: RepoName, path: string) => `/sandboxes/${sandbox.id}/changes?${new URLSearchParams({ repo, path })}`

const listOf = (sandbox: Sandbox, repo: RepoName, { files, partialWarnings }: ChangedFiles, shown: string | null): Html => {
  const items = files.map((file) => {
    const name = isProtected(file.path)
      ? html`<span>${file.path}</span>`
      : html`<a href="${linkOf(sandbox, repo, file.path)}"${file.path === shown && html` aria-current="page"`}>${file.path}</a>`
    return html`
<li>${name} <span class="state">${file.status === "untracked" ? "new" : file.status}</span> ${counts(file)}</li>`
  })
  const none = partialWarnings.length === 0 && html`<p>Nothing is changed.</p>`
  const list = html`<ul class="changes">${items}
</ul>`
  return html`${partialWarnings.map((warning) => html`<p class="warning">${WARNINGS[warning]}</p>`)}
${items.length === 0 ? none : list}`
}

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const files = yield* Files

  /** One file, or why it is not shown. */
  const fileOf = Effect.fnUntraced(
    function*(by: Principal, id: SandboxId, repo: RepoName, path: string, { files: changed }: ChangedFiles) {
      const { base, working } = yield* files.compare(by, id, { repo, path })
      // A renamed file is compared with what it was.
      const previous = changed.find((file) => file.path === path && file.status === "renamed")?.previousPath ?? null
      const before = previous === null ? base : (yield* files.compare(by, id, { repo, path: previous })).base
      return versions(before, working, path)
    },
    Effect.catchTags({
      AgentDisconnected: () => Effect.succeed(html`<p>${AWAY}</p>`),
      FileProtected: () => Effect.succeed(html`<p>This file is protected, or is no plain file, and is not shown.</p>`),
      FileTooLarge: () => Effect.succeed(html`<p>The file is too large to be shown: more than 1 MiB.</p>`),
      FileNotFound: () => Effect.succeed(html`<p>There is no such file.</p>`),
      IsDirectory: () => Effect.succeed(html`<p>There is no such file.</p>`),
      InvalidPath: () => Effect.succeed(html`<p>There is no such file.</p>`),
      SandboxNotRunning: () => Effect.succeed(html`<p>The sandbox has just ended.</p>`),
      RepoNotFound: Effect.die,
      RepoRequired: Effect.die
    })
  )

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    const by = principalOf(member.visit)
    const sandbox = yield* sandboxes.get(by, id)
    const path = asked.url.searchParams.get("path")
    const wanted = asked.url.searchParams.get("repo")
    const named = wanted === null
      ? sandbox.repos[0]
      : isRepo(wanted)
      ? sandbox.repos.find(({ fullName }) => sameRepo(fullName, wanted))
      : undefined
    if (named === undefined) return yield* Refused.notFound("The sandbox has no such repository.")
    const repo = named.fullName

    const changed = yield* files.changes(by, id, repo).pipe(Effect.catchTags({
      SandboxNotRunning: () => Effect.succeed("Files can be looked at while the sandbox is running. It is not running now."),
      AgentDisconnected: () => Effect.succeed(AWAY),
      FileNotFound: () => Effect.succeed("The repository is not there yet."),
      RepoNotFound: Effect.die,
      RepoRequired: Effect.die
    }))
    const publish = html`<form class="actions" method="post" action="/sandboxes/${id}/pull-request">${member.csrf}
<input type="hidden" name="repo" value="${repo}"><button>Publish as a draft pull request</button></form>`
    const list = typeof changed === "string" ? html`<p>${changed}</p>` : html`${listOf(sandbox, repo, changed, path)}
${changed.files.length > 0 && publish}`
    const file = path === null || typeof changed === "string" ? nothing : html`<section aria-labelledby="file-title">
<h2 id="file-title">${path}</h2>
${yield* fileOf(by, id, repo, path, changed)}
</section>`
    const places = sandbox.repos.map(({ fullName }) => {
      const address = `/sandboxes/${id}/changes?${new URLSearchParams({ repo: fullName })}`
      return html`
<li><a href="${address}"${fullName === repo && html` aria-current="page"`}>${fullName}</a></li>`
    })
    const others = html`<nav aria-label="Repositories"><ul class="places">${places}
</ul></nav>`
    const body = html`<p class="fine"><a href="/sandboxes">Sandboxes</a> / <a href="/sandboxes/${id}">${sandbox.title}</a></p>
<h1>Files changed</h1>
<p class="fine">Since the commit the sandbox started from.</p>
${places.length > 1 && others}
<section aria-labelledby="repo-title"><h2 id="repo-title">${repo}</h2>
${list}
</section>
${file}`
    return Page.show({ title: `Files changed: ${sandbox.title}`, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", () => Effect.fail(noSandbox)))
  return get
})
