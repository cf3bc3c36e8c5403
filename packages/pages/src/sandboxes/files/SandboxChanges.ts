/** `/sandboxes/:id/changes`: what the agent changed since the commit it started from. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { FileVersion } from "@slipway/domain/files/ports/WorkingTrees"
import type { ChangedFile, ChangedFiles } from "@slipway/domain/files/schema/FileTree"
import { type Compared, Files } from "@slipway/domain/files/usecases/Files"
import { type Checkpoint, KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import { fit } from "../../html/Fit.ts"
import { html, type Html, type Later, type Part } from "../../html/Html.ts"
import * as Render from "../../html/Render.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { publishLabel } from "../../shared/PullLabels.ts"
import { AWAY, ChangesCache } from "../changes/ChangesCache.ts"
import * as ChangesList from "../changes/ChangesList.ts"
import * as Diff from "../changes/Diff.ts"
import * as DiffLayout from "../changes/DiffLayout.ts"
import * as DiffTable from "../changes/DiffTable.ts"
import * as LineComment from "../changes/LineComment.ts"
import * as Patch from "../changes/Patch.ts"
import type { PatchedFile } from "../changes/Patch.ts"
import { breadcrumb, idOf, noSandbox } from "../page/SandboxPage.ts"
import * as SandboxPieces from "../page/SandboxPieces.ts"
import * as FilesAddress from "./FilesAddress.ts"

/** Lines of a file that is shown alone. */
const MAX_ALONE = 2_000
/** Lines of all files together, and of each of them. */
const MAX_TOGETHER = 1_500
const MAX_EACH = 300
/**
 * Bytes of the list of files, of all sections together, of each section, and of a file that is shown alone. A first visit, with styles and
 * scripts, should load less than 300 kB.
 */
export const LIST_BYTES = 44 * 1024
const TOGETHER_BYTES = 192 * 1024
const EACH_BYTES = 64 * 1024
const ALONE_BYTES = 640 * 1024

/** The space for all files of one page together: a new one for each page, since rendering uses it up. */
export const spaceTogether = (): DiffTable.Space => ({ lines: MAX_TOGETHER, budget: { bytes: TOGETHER_BYTES } })

const tooMuch = html`<p class="warning">Too much changed to compare it line by line.</p>`

const isLong = (version: FileVersion): boolean => {
  const text = version?.content ?? ""
  let at = -1
  for (let lines = 0; lines <= Diff.MAX_LINES; lines++) {
    at = text.indexOf("\n", at + 1)
    if (at === -1) return false
  }
  return true
}

/** Makes the form whose buttons comment on lines of a file; `null`: no comments are taken. */
type CommentForm = ((path: string, id: string) => Html) | null

/** How the diffs of a page look. */
export interface Look {
  readonly layout: DiffTable.Layout
  readonly commentForm: CommentForm
}

/** `restFrom`: where the lines after so many are shown. `after`: how many come before. */
const hunksShown = (
  { hunks, left, path }: Pick<PatchedFile, "hunks" | "left" | "path">,
  restFrom: (after: number) => string,
  after: number,
  { commentForm, layout }: Look
): Html => {
  const before = after > 0 &&
    html`<p class="fine">${after} earlier lines hidden. <a href="${restFrom(0)}">Show from start</a></p>`
  const table = DiffTable.render(
    path,
    hunks,
    { lines: MAX_ALONE, budget: { bytes: ALONE_BYTES } },
    ({ content, next }) => html`${content}${next !== null && next > after && html`<p><a href="${restFrom(next)}">Show more</a></p>`}`,
    { after, left, layout, commentForm: commentForm === null ? null : "comment" }
  )
  return html`${before}
${commentForm?.(path, "comment") ?? null}
${table}`
}

const versions = Effect.fnUntraced(
  function*(
    base: FileVersion,
    working: FileVersion,
    path: string,
    restFrom: (after: number) => string,
    after: number,
    look: Look
  ) {
    if (base === null && working === null) return html`<p>File not found.</p>`
    if (base?.binary === true || working?.binary === true) {
      const before = base === null ? "new" : `${base.size} bytes before`
      const now = working === null ? "deleted" : `${working.size} bytes now`
      return html`<p>A binary file: ${before}, ${now}.</p>`
    }
    const diff = yield* Render.run(Diff.compare(base?.content ?? "", working?.content ?? ""))
    if (diff.hunks.length === 0) return html`<p>Contents unchanged.</p>`
    return html`${diff.coarse && tooMuch}${hunksShown({ path, hunks: diff.hunks, left: 0 }, restFrom, after, look)}`
  }
)

/** Which two versions are compared. A number is that of a checkpoint. */
interface Range {
  readonly from: Compared
  readonly to: Compared
}
const ALL: Range = { from: "base", to: "working" }
const isAll = ({ from, to }: Range) => from === ALL.from && to === ALL.to

/** The part of an address that all files of the comparison have in common. */
type View = Pick<Asked, "chosen" | "range" | "repo">

const fieldsOf = ({ chosen, range, repo }: View): Readonly<Record<string, string>> => ({
  repo,
  ...(isAll(range) ? {} : { from: String(range.from), to: String(range.to) }),
  ...chosen.fields
})

const addressOf = (sandbox: Sandbox, view: View, path?: string) =>
  `/sandboxes/${sandbox.id}/changes?${new URLSearchParams({ ...fieldsOf(view), ...(path === undefined ? {} : { path }) })}`

const NOTES = {
  binary: "A binary file.",
  protected: "This file is protected and can't be shown.",
  large: "Diff too large."
}

/** The section of one file, where all files stand one below the other. `file`: as the list has it. */
const sectionOf = (
  patched: PatchedFile,
  file: ChangedFile,
  anchor: string,
  alone: string,
  space: DiffTable.Space,
  { commentForm, layout }: Look
): Html => {
  const { blobs, hunks, left, note, path } = patched
  const formId = `comment-${anchor}`
  const { counts, stateOf } = ChangesList
  const changed = (): Part => {
    if (note !== null) return html`<p>${NOTES[note]}</p>`
    if (hunks.every((hunk) => hunk.length === 0)) return html`<p>Contents unchanged.</p>`
    const here: DiffTable.Space = {
      lines: Math.min(MAX_EACH, space.lines),
      budget: { bytes: Math.min(EACH_BYTES, space.budget.bytes) }
    }
    const most = here.lines
    return DiffTable.render(
      path,
      hunks,
      here,
      ({ content, next }) => {
        space.lines -= most - here.lines
        return html`${content}${next !== null && html`<p><a href="${alone}">Show all of ${path}</a></p>`}`
      },
      { left, layout, commentForm: commentForm === null ? null : formId }
    )
  }
  const summary = html`<span class="path">${path}</span> ${stateOf(file)} ${counts(file)}`
  return html`<div class="file-box" data-blobs="${blobs}"><details class="changed-file" id="${anchor}" open><summary>${summary}</summary>
<p class="fine"><a href="${alone}">View file alone<span class="unseen"> ${path}</span></a></p>
${commentForm?.(path, formId) ?? null}
${changed()}
</details></div>
`
}

/** The sections of as many files as there is space for; `done` gets them by their paths. */
export const sectionsOf = (
  patched: ReadonlyArray<PatchedFile>,
  files: ReadonlyArray<ChangedFile>,
  linkOf: (path: string) => string,
  space: DiffTable.Space,
  look: Look,
  done: (sections: ReadonlyMap<string, Html>) => Part
): Later => {
  const places = new Map(files.map((file, i) => [file.path, { file, anchor: `file-${i + 1}` }]))
  const listed = function*() {
    for (const one of patched) {
      const place = places.get(one.path)
      if (place === undefined || isProtected(one.path)) continue
      if (space.lines <= 0) return
      yield { one, ...place }
    }
  }
  return fit(
    listed(),
    space.budget,
    ({ anchor, file, one }) => sectionOf(one, file, anchor, linkOf(one.path), space, look),
    (shown, taken) => done(new Map(shown.map((section, i) => [taken[i]?.one.path ?? "", section])))
  )
}

/** Leads to those of the files that have no section on the page. */
export const moreFiles = (
  files: ReadonlyArray<Pick<ChangedFile, "path">>,
  patched: ReadonlyArray<PatchedFile>,
  sections: ReadonlyMap<string, Html>,
  listFrom: (after: number) => string
): Html | false => {
  const hidden = new Set(patched.flatMap(({ path }) => sections.has(path) || isProtected(path) ? [] : [path]))
  const next = listFrom(files.findIndex(({ path }) => hidden.has(path)))
  return hidden.size > 0 &&
    html`<p class="warning">${hidden.size} more files are hidden: <a href="${next}">show the next</a>, or choose one in the list.</p>`
}

/** For `viewed.js`: how many of the files the reader has viewed. `review`: whose files they are. */
export const viewedCount = (review: string): Html => html`<p id="viewed" class="fine" role="status" data-review="${review}"></p>`

/** The first files of a patch: all lines of the file that is shown alone, and {@link MAX_EACH} of others. */
export const filesOf = (patch: Uint8Array, whole: string | null) => Render.run(Patch.read(patch, { lines: MAX_EACH, whole }))

export const patchedShown = (
  file: PatchedFile,
  restFrom: (after: number) => string,
  after: number,
  look: Look
): Html => {
  const { hunks, note } = file
  if (note !== null) return html`<p>${NOTES[note]}</p>`
  if (hunks.every((hunk) => hunk.length === 0)) return html`<p>Contents unchanged.</p>`
  return hunksShown(file, restFrom, after, look)
}

const versionName = (version: Compared): string =>
  version === "base" ? "where the sandbox started" : version === "working" ? "now" : `checkpoint ${version}`

const VERSION = /^(?:base|working|[1-9]\d{0,8})$/u

/** `null`: the address names no version. */
const rangeOf = ({ searchParams }: URL): Range | null => {
  const version = (name: "from" | "to"): Compared | null => {
    const given = searchParams.get(name) ?? ALL[name]
    return typeof given === "number" || !VERSION.test(given) ? null : given === "base" || given === "working" ? given : Number(given)
  }
  const [from, to] = [version("from"), version("to")]
  return from === null || to === null ? null : { from, to }
}

/** Every checkpoint against the one before it, and what came since the last. */
const rangesOf = (checkpoints: ReadonlyArray<Checkpoint>): ReadonlyArray<{ readonly name: string; readonly range: Range }> => {
  const last = checkpoints.at(-1)?.checkpoint
  const each = checkpoints.flatMap(({ checkpoint }, i) =>
    i === 0 && checkpoint > 1
      ? []
      : [{ name: `Checkpoint ${checkpoint}`, range: { from: checkpoint === 1 ? "base" : checkpoint - 1, to: checkpoint } } as const]
  )
  const since = last === undefined ? [] : [{ name: `Since checkpoint ${last}`, range: { from: last, to: "working" } } as const]
  return [{ name: "All changes", range: ALL }, ...each, ...since]
}

interface Services {
  readonly sandboxes: typeof Sandboxes.Service
  readonly files: typeof Files.Service
  readonly changes: typeof ChangesCache.Service
  readonly pieces: Effect.Success<typeof SandboxPieces.make>
  readonly layoutOf: Effect.Success<typeof DiffLayout.make>
}

const noCheckpoint = Refused.notFound("Checkpoint not found or expired.")

/** The changed files with their hunks; a text says why there are none, `null`: the patch is too large. */
const patchOf = Effect.fnUntraced(
  function*({ changes }: Services, by: Principal, sandbox: Sandbox, repo: RepoName, range: Range, path: string | null) {
    return yield* filesOf(yield* changes.patch(by, sandbox, { repo, ...range, path: path ?? undefined }), path)
  },
  Effect.catchTags({ FileTooLarge: () => Effect.succeed(null), AgentDisconnected: () => Effect.succeed(AWAY) }),
  Effect.catchTag("CheckpointNotFound", () => Effect.fail(noCheckpoint)),
  Effect.catchTags({
    FileNotFound: () => Effect.succeed("The repository is not cloned yet."),
    InvalidPath: () => Effect.succeed([]),
    SandboxNotRunning: () => Effect.succeed("The sandbox has just ended."),
    RepoNotFound: Effect.die,
    RepoRequired: Effect.die
  })
)

/** One file, or why it is not shown. */
const fileOf = Effect.fnUntraced(
  function*(
    services: Services,
    by: Principal,
    sandbox: Sandbox,
    repo: RepoName,
    path: string,
    { files: changed }: ChangedFiles,
    restFrom: (after: number) => string,
    after: number,
    look: Look
  ) {
    const { id } = sandbox
    const { base, working } = yield* services.files.compare(by, id, { repo, path })
    // A renamed file is compared with what it was.
    const previous = changed.find((file) => file.path === path && file.status === "renamed")?.previousPath ?? null
    const before = previous === null ? base : (yield* services.files.compare(by, id, { repo, path: previous })).base
    if (isLong(before) || isLong(working)) {
      // Git compares long files faster.
      const patched = yield* patchOf(services, by, sandbox, repo, ALL, path)
      const [one] = typeof patched === "string" || patched === null ? [] : patched
      return one === undefined
        ? html`<p>${typeof patched === "string" ? patched : "Diff too large."}</p>`
        : patchedShown(one, restFrom, after, look)
    }
    return yield* versions(before, working, path, restFrom, after, look)
  },
  Effect.catchTags({
    AgentDisconnected: () => Effect.succeed(html`<p>${AWAY}</p>`),
    FileProtected: () => Effect.succeed(html`<p>This file can't be shown.</p>`),
    FileTooLarge: () => Effect.succeed(html`<p>This file is too large to show (more than 1 MiB).</p>`),
    FileNotFound: () => Effect.succeed(html`<p>File not found.</p>`),
    IsDirectory: () => Effect.succeed(html`<p>File not found.</p>`),
    InvalidPath: () => Effect.succeed(html`<p>File not found.</p>`),
    SandboxNotRunning: () => Effect.succeed(html`<p>The sandbox has just ended.</p>`),
    RepoNotFound: Effect.die,
    RepoRequired: Effect.die
  })
)

/** The comparison that an address asks for. */
interface Asked {
  readonly repo: RepoName
  readonly range: Range
  /** The file that is shown alone; `null`: all files, one below the other. */
  readonly path: string | null
  /** How many files of the list, or lines of the file, come before the first one shown. */
  readonly after: number
  /** The line of the file to comment on: see `LineComment.ts`. */
  readonly line: number | null
  readonly chosen: DiffLayout.Chosen
}

const placeIn = ({ range, repo }: Pick<Asked, "range" | "repo">, path: string): LineComment.Place => ({
  repo,
  path,
  version: range.to === "working" ? null : range.to === "base" ? versionName(range.to) : `at ${versionName(range.to)}`
})

/** Comments are messages, which only a running sandbox takes. */
const commentFormOf = (sandbox: Sandbox, asked: Asked): CommentForm =>
  sandbox.status !== "running" ?
    null :
    (path, id) => LineComment.form(sandbox, id, placeIn(asked, path), { ...fieldsOf(asked), path })

const read = Effect.fnUntraced(function*({ layoutOf }: Services, url: URL, sandbox: Sandbox) {
  const path = url.searchParams.get("path")
  const repo = yield* FilesAddress.repoOf(sandbox, url)
  const range = rangeOf(url)
  if (range === null) return yield* Refused.bad("Versions are base, working, or the number of a checkpoint.")
  const [after, line] = [yield* FilesAddress.afterOf(url), yield* LineComment.lineOf(url)]
  const asked: Asked = { repo, range, path, after, line, chosen: yield* layoutOf(url) }
  return asked
})

const nothingYet: ChangedFiles = { files: [], partialWarnings: [] }

/** The list of changed files, and the changes below it. */
const shownOf = Effect.fnUntraced(function*(services: Services, { csrf, visit }: Page.Member, sandbox: Sandbox, asked: Asked) {
  const { after, path, range, repo } = asked
  const by = principalOf(visit)
  const look: Look = { layout: asked.chosen.layout, commentForm: commentFormOf(sandbox, asked) }
  const linkOf = (of: string) => addressOf(sandbox, asked, of)
  const linkToAll = addressOf(sandbox, asked)
  const changed = isAll(range) ? yield* services.changes.read(by, sandbox, repo) : nothingYet
  // A single file is compared directly, however much changed in others.
  const isAlone = path !== null && isAll(range)
  const patched = typeof changed === "string" || isAlone ? [] : yield* patchOf(services, by, sandbox, repo, range, path)
  const problem = typeof changed === "string" ? changed : typeof patched === "string" ? patched : null
  const known = typeof patched === "string" || patched === null ? [] : patched
  const list = typeof changed === "string" || !isAll(range) ? { ...nothingYet, files: known } : changed
  const listFrom = (after: number) => `${linkToAll}&${new URLSearchParams({ after: String(after) }).toString()}`

  const alone = known.find((file) => file.path === path)
  const restFrom = (from: number) => `${linkOf(path ?? "")}&after=${from}`
  const aboutFile = path === null || typeof changed === "string"
    ? null
    : isAlone
    ? yield* fileOf(services, by, sandbox, repo, path, changed, restFrom, after, look)
    : alone !== undefined && patchedShown(alone, restFrom, after, look)
  const file = aboutFile !== null && aboutFile !== false && html`<section aria-labelledby="file-title">
<h2 id="file-title">${path}</h2>
<p class="fine"><a href="${linkToAll}">All files</a></p>
${aboutFile}
</section>`

  const publish = html`<form class="actions" method="post" action="/sandboxes/${sandbox.id}/pull-request">${csrf}
<input type="hidden" name="repo" value="${repo}"><button>${publishLabel(publicationOf(sandbox, repo)?.number ?? null)}</button></form>`
  const anchors = new Map(list.files.map((file, i) => [file.path, `#file-${i + 1}`]))
  /** `listed`: the files that may have a section. */
  const page = (sections: ReadonlyMap<string, Html>, listed: ReadonlyArray<PatchedFile>) => {
    const placeOf = (of: string) => sections.has(of) ? anchors.get(of) ?? linkOf(of) : linkOf(of)
    const from = { after: path === null ? after : 0, shown: path }
    const content = problem !== null ? html`<p>${problem}</p>` : html`
${patched === null && html`<p class="warning">The diff is too large to show at once: choose a file.</p>`}
${ChangesList.render(list, placeOf, { bytes: LIST_BYTES }, listFrom, from)}
${isAll(range) && list.files.length > 0 && publish}`
    const here = `${addressOf(sandbox, asked, path ?? undefined)}${after > 0 ? `&after=${after}` : ""}`
    return html`<section aria-labelledby="repo-title"><h2 id="repo-title">${repo}</h2>
${content}
</section>
${(file !== false || sections.size > 0) && DiffLayout.links(asked.chosen.layout, here)}
${file}
${viewedCount(`${sandbox.id} ${repo}`)}
${[...sections.values()]}
${moreFiles(list.files, listed, sections, listFrom)}`
  }
  if (path !== null) return page(new Map(), [])
  const before = new Set(list.files.slice(0, after).map((file) => file.path))
  const listed = known.filter((file) => !before.has(file.path))
  const done = (sections: ReadonlyMap<string, Html>) => page(sections, listed)
  return sectionsOf(listed, list.files, linkOf, spaceTogether(), look, done)
})

/** The message box, which begins with the line that the address names. */
const dockOf = Effect.fnUntraced(function*(services: Services, member: Page.Member, sandbox: Sandbox, asked: Asked) {
  const { line, path, range, repo } = asked
  const shown = SandboxPieces.shownTo(member, sandbox)
  const isComment = line !== null && path !== null && !isProtected(path)
  const patched = isComment ? yield* patchOf(services, shown.by, sandbox, repo, range, path) : []
  const file = typeof patched === "string" ? undefined : patched?.find((one) => one.path === path)
  const draft = isComment ? { draft: LineComment.draft(sandbox, placeIn(asked, path), line, file) } : {}
  return html`<section class="dock below" aria-label="Message">
<div id="outcome" role="status"></div>
${yield* services.pieces.message.render({ ...shown, ...draft })}
<span id="connection" class="connection" role="status"></span>
</section>`
})

const versionLinks = (sandbox: Sandbox, asked: Asked, checkpoints: ReadonlyArray<Checkpoint>): Html | false => {
  const ranges = rangesOf(checkpoints).map(({ name, range: one }) => {
    const isHere = one.from === asked.range.from && one.to === asked.range.to
    return html`
<li><a href="${addressOf(sandbox, { ...asked, range: one })}"${isHere && html` aria-current="page"`}>${name}</a></li>`
  })
  return ranges.length > 1 && html`<nav aria-label="Versions"><ul class="places">${ranges}
</ul></nav>`
}

const get = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { params, url }) {
    const id = yield* idOf({ params })
    const by = principalOf(member.visit)
    const sandbox = yield* services.sandboxes.get(by, id)
    const asked = yield* read(services, url, sandbox)
    const { chosen, range, repo } = asked
    const checkpoints = yield* services.sandboxes.checkpoints(by, id, { after: 0, limit: KEPT_CHECKPOINTS + 1 })
    // The status is sent before git is asked.
    const isKept = (version: Compared) => typeof version !== "number" || checkpoints.some(({ checkpoint }) => checkpoint === version)
    if (!isKept(range.from) || !isKept(range.to)) return yield* noCheckpoint
    // Git reads them in the sandbox's box.
    const compared = Effect.zipWith(
      shownOf(services, member, sandbox, asked),
      dockOf(services, member, sandbox, asked),
      (shown, dock) =>
        html`${shown}
${dock}`
    ).pipe(Effect.catchTag("SandboxNotFound", () => Effect.fail(noSandbox)))
    const what = isAll(range)
      ? "Compared with the base commit."
      : `From ${versionName(range.from)} to ${versionName(range.to)}.`
    const body = html`${breadcrumb(sandbox)}
<h1>Files changed</h1>
<p><a href="/sandboxes/${id}/files?${new URLSearchParams({ repo }).toString()}">All files of ${repo}</a></p>
<p class="fine">${what}</p>
${FilesAddress.repositoryLinks(sandbox, repo, (other) => addressOf(sandbox, { chosen, repo: other, range: ALL }))}
${versionLinks(sandbox, asked, checkpoints)}
${Page.latePlace}`
    const scripts = ["live.js", "review.js", "viewed.js"]
    const document = { title: `Files changed: ${sandbox.title}`, place: "sandboxes", body, scripts } as const
    return Page.showWithLate(document, member, compared, "Loading changes…", chosen)
  }, Effect.catchTags({ SandboxNotFound: () => Effect.fail(noSandbox), InvalidRequest: Effect.die }))

export const make = Effect.gen(function*() {
  const services = { sandboxes: yield* Sandboxes, files: yield* Files, changes: yield* ChangesCache }
  return get({ ...services, pieces: yield* SandboxPieces.make, layoutOf: yield* DiffLayout.make })
})
