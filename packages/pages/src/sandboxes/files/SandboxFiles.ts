/**
 * `/sandboxes/:id/files`: the files of a sandbox as they are: folders, texts in colours, pictures, and anything as a download. What is
 * in them was written by agents: a browser gets it as text that we escaped, as a picture that begins as one, or to save it.
 */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { FileVersion } from "@slipway/domain/files/ports/WorkingTrees"
import { type FileSearch, type FoundFile, type FoundFiles, MAX_SEARCHED_TEXT } from "@slipway/domain/files/schema/FileSearch"
import type { FileEntry, FileTree } from "@slipway/domain/files/schema/FileTree"
import { Files } from "@slipway/domain/files/usecases/Files"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LiveResponses } from "@slipway/http/server/connection/LiveResponses"
import * as Wire from "@slipway/http/server/connection/Wire"
import { attachment } from "@slipway/http/server/reply/ContentDisposition"
import { respond } from "@slipway/http/server/reply/Respond"
import { Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { fit, later } from "../../html/Fit.ts"
import { columnHeads, html, type Html, type Later, type Part } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import * as FileNames from "../../shared/FileNames.ts"
import * as Code from "../../text/Code.ts"
import * as Colours from "../../text/Colours.ts"
import * as Languages from "../../text/Languages.ts"
import { AWAY } from "../changes/ChangesCache.ts"
import * as ChangesList from "../changes/ChangesList.ts"
import { sizeOf } from "../page/ArtifactItems.ts"
import { breadcrumb, idOf, noSandbox } from "../page/SandboxPage.ts"
import * as FilesAddress from "./FilesAddress.ts"
import * as Picture from "./Picture.ts"

/** Entries of a folder that are shown. */
const MAX_ENTRIES = 1_000
/** Lines of a text that are shown, and characters of each. */
const MAX_LINES = 2_000
const MAX_LINE = 400
/** Bytes of what is listed or shown on one page. */
const PAGE_BYTES = 768 * 1024
/** Bytes of a picture that is shown. */
const MAX_PICTURE_BYTES = 5 * 2 ** 20

/** A browser runs, loads and follows nothing in it, whatever type it detects. */
const INERT = { "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'", "x-content-type-options": "nosniff" }

type Place = "files" | "files/download" | "files/picture"

const addressOf = (sandbox: Sandbox, place: Place, repo: RepoName, path: string) =>
  `/sandboxes/${sandbox.id}/${place}?${new URLSearchParams({ repo, path })}`

/** The number of entries or lines before the first shown one, and the links to others. */
interface Position {
  readonly after: number
  readonly linkTo: (after: number) => string
}

const before = ({ after, linkTo }: Position, what: string) =>
  after > 0 && html`<p class="fine">${after} earlier ${what} hidden. <a href="${linkTo(0)}">Show from start</a></p>`

const KINDS = { file: "", directory: "folder", symlink: "link", submodule: "repository" }

const rowOf = (sandbox: Sandbox, repo: RepoName, { kind, name, path, size, status }: FileEntry): Html => {
  const shown = kind === "directory" ? `${name}/` : name
  const leads = status !== "deleted" && (kind === "file" || kind === "directory") && !isProtected(path)
  const entry = leads ? html`<a href="${addressOf(sandbox, "files", repo, path)}">${shown}</a>` : html`${shown}`
  const state = status !== null && html`<span class="state">${status === "untracked" ? "new" : status}</span>`
  return html`<tr><th scope="row">${entry}</th><td data-label="Kind">${isProtected(path) ? "protected" : KINDS[kind]}</td>
<td data-label="Change">${state}</td><td data-label="Size">${size !== null && sizeOf(size)}</td></tr>
`
}

/** Characters of a part of a name that is searched for. */
const MAX_FIND = 200

/** Finds entries of the folder by a part of their name. */
const findForm = (sandbox: Sandbox, repo: RepoName, directory: string, find: string): Html => {
  const all = find !== "" && html`<a href="${addressOf(sandbox, "files", repo, directory)}">Show all</a>`
  return html`<form class="filters" method="get" action="/sandboxes/${sandbox.id}/files" role="search">
<input type="hidden" name="repo" value="${repo}"><input type="hidden" name="path" value="${directory}">
<div class="field"><label for="find">Find in this folder</label>
<input id="find" name="find" type="search" value="${find}" maxlength="${MAX_FIND}" placeholder="Part of a name" autocomplete="off"></div>
<button class="quiet">Find</button> ${all}</form>`
}

/** Searches names and contents of all files, whatever folder is shown. */
const searchForm = (sandbox: Sandbox, repo: RepoName, { ignoreCase, text }: FileSearch): Html =>
  html`<form class="filters" method="get" action="/sandboxes/${sandbox.id}/files" role="search" aria-label="Find in files">
<input type="hidden" name="repo" value="${repo}">
<div class="field"><label for="search">Find in files</label>
<input id="search" name="search" type="search" value="${text}" maxlength="${MAX_SEARCHED_TEXT}" autocomplete="off"
placeholder="Name or text"></div>
<div class="choice"><input type="checkbox" id="ignore-case" name="case" value="any"${ignoreCase && html` checked`}>
<label for="ignore-case">Ignore case</label></div>
<button class="quiet">Search</button></form>`

/** A line is linked with some lines before it, if it is not among the first ones of its file. */
const FIRST_LINES = 500
const LINES_BEFORE = 20

const foundFile = (sandbox: Sandbox, repo: RepoName, { lineCount, lines, path }: FoundFile): Html => {
  const address = addressOf(sandbox, "files", repo, path)
  const items = lines.map(({ number, text }) => {
    const after = number > FIRST_LINES ? `&after=${number - LINES_BEFORE}` : ""
    return html`
<li><a href="${address}${after}#L${number}">${number}</a> <code>${text}</code></li>`
  })
  const more = lineCount - lines.length
  const list = items.length > 0 && html`<ul>${items}
</ul>`
  return html`<section class="found"><h2><a href="${address}">${path}</a></h2>
${list}${more > 0 && html`<p class="fine">${more} more lines.</p>`}</section>
`
}

const foundFiles = (sandbox: Sandbox, repo: RepoName, { files, isComplete }: FoundFiles, { text }: FileSearch): Later =>
  fit(files, { bytes: PAGE_BYTES }, (file) => foundFile(sandbox, repo, file), (shown) => {
    const isAll = isComplete && shown.length === files.length
    const count = shown.length === 1 ? "1 file" : `${shown.length} files`
    return html`<p role="status">${shown.length === 0 ? html`Nothing found for <code>${text}</code>.` : `${count} found.`}
<a href="${addressOf(sandbox, "files", repo, "")}">All files</a></p>
${!isAll && html`<p class="warning">Not everything was searched or is shown: search for a longer text.</p>`}
${shown}`
  })

/** `find`: a part of the names of the shown entries; empty: all are shown. */
const folder = (
  sandbox: Sandbox,
  repo: RepoName,
  { directory, entries: all, partialWarnings }: FileTree,
  position: Position,
  find: string
): Later => {
  const { after, linkTo } = position
  const wanted = find.toLowerCase()
  const entries = wanted === "" ? all : all.filter(({ name }) => name.toLowerCase().includes(wanted))
  const none = all.length === 0 ? html`<p>The folder is empty.</p>` : html`<p>No name in this folder contains ${find}.</p>`
  const shown = entries.slice(after, after + MAX_ENTRIES)
  return fit(shown, { bytes: PAGE_BYTES }, (entry) => rowOf(sandbox, repo, entry), (rows) => {
    const end = after + rows.length
    const more = entries.length - end
    const table = html`<table class="rows files"><caption class="unseen">Files in ${directory === "" ? repo : directory}</caption>
<thead><tr>${columnHeads("Name", "Kind", "Change", "Size")}</tr></thead>
<tbody>
${rows}</tbody></table>`
    return html`${ChangesList.warnings(partialWarnings)}
${before(position, "entries")}
${all.length > 0 && findForm(sandbox, repo, directory, find)}
${entries.length === 0 ? none : table}
${more > 0 && html`<p class="warning">${more} more hidden. <a href="${linkTo(end)}">Show more</a></p>`}`
  })
}

/** The position of the line after `after` lines; `null` if there are fewer. */
const startOf = (text: string, after: number): number | null => {
  let start = 0
  for (let i = 0; i < after; i++) {
    start = text.indexOf("\n", start) + 1
    if (start === 0) return null
  }
  return start
}

interface TextLine {
  /** Counted from 1. */
  readonly number: number
  readonly pieces: ReadonlyArray<Colours.Piece>
  /** Characters that are not shown. */
  readonly more: number
}

/** The lines, in the colours of the file's language. `after`: how many lines come before. */
const linesOf = function*(path: string, all: ReadonlyArray<string>, after: number): Generator<TextLine, void> {
  const language = Languages.ofFile(path)
  const cut = all.map((line) => line.slice(0, MAX_LINE))
  const joined = cut.join("\n")
  const coloured = language === null || joined.length > Code.MAX_COLOURED
    ? cut.map((line) => [{ text: line, colour: null }])
    : Colours.lines(Colours.read(joined, language))
  let i = 0
  for (const pieces of coloured) {
    yield { number: after + i + 1, pieces, more: Math.max(0, (all[i]?.length ?? 0) - MAX_LINE) }
    i++
  }
}

const lineOf = ({ more, number, pieces }: TextLine): Html => {
  const hidden = more > 0 && html`<span class="aside"> … ${more} more characters</span>`
  const text = html`${pieces.map(Code.piece)}${hidden}`
  return html`<tr id="L${number}"><td class="number">${number}</td><td class="line"><code>${text}</code></td></tr>
`
}

/** A text line by line, in the colours of its language, as far as a page shows it. */
export const text = (path: string, content: string, position: Position): Later =>
  later(() => {
    const { after, linkTo } = position
    const whole = content.replace(/\r?\n$/u, "")
    const start = startOf(whole, after)
    const all = start === null ? [] : whole.slice(start).split("\n", MAX_LINES + 1)
    const lines = linesOf(path, all.slice(0, MAX_LINES), after)
    return fit(lines, { bytes: PAGE_BYTES }, lineOf, (rows) => {
      const end = after + rows.length
      const rest = all.length > rows.length &&
        html`<p class="warning">Only lines ${after + 1} to ${end} are shown. <a href="${linkTo(end)}">Show more</a></p>`
      return html`${before(position, "lines")}
<div class="diff-box" tabindex="0" role="region" aria-label="Text of ${path}">
<table class="diff code"><caption class="unseen">Text of ${path}</caption>
<thead class="unseen"><tr>${columnHeads("Line", "Text")}</tr></thead>
<tbody>
${rows}</tbody></table></div>
${rest}`
    })
  })

const version = (sandbox: Sandbox, repo: RepoName, path: string, working: FileVersion, position: Position): Html => {
  if (working === null) return html`<p>File not found.</p>`
  const isRunning = sandbox.status === "running"
  const download = isRunning && html`<a class="button quiet" href="${addressOf(sandbox, "files/download", repo, path)}">Download</a>`
  const about = html`<p class="actions"><span class="fine">${sizeOf(working.size)}</span> ${download}</p>`
  if (working.content !== null) {
    return html`${about}
${working.content === "" ? html`<p>The file is empty.</p>` : text(path, working.content, position)}`
  }
  if (!Picture.mayBe(path) || working.size > MAX_PICTURE_BYTES) {
    return html`${about}
<p>This file is not text.</p>`
  }
  const picture = html`<p><img class="picture" src="${addressOf(sandbox, "files/picture", repo, path)}" alt="The picture ${path}"></p>`
  return html`${about}
${isRunning ? picture : html`<p>Pictures can be shown only while the sandbox runs.</p>`}`
}

/** The file or folder that the address names. */
interface Content {
  readonly path: string
  readonly shown: Part
}

const trail = (sandbox: Sandbox, repo: RepoName, path: string): Html => {
  const segments = path === "" ? [] : path.split("/")
  const steps = segments.map((name, i) => {
    const whole = segments.slice(0, i + 1).join("/")
    return i === segments.length - 1 ? html` / ${name}` : html` / <a href="${addressOf(sandbox, "files", repo, whole)}">${name}</a>`
  })
  const root = path === "" ? repo : html`<a href="${addressOf(sandbox, "files", repo, "")}">${repo}</a>`
  return html`<p class="trail">${root}${steps}</p>`
}

const noFile = Refused.notFound("File not found.")
const isKept = new Refused({ status: 403, title: "Not shown", text: "This file can't be shown." })
const isAway = new Refused({ status: 503, title: "Not now", text: AWAY, headers: { "retry-after": "1" } })
const isOver = new Refused({ status: 409, title: "No files", text: "No files were saved." })
const isLarge = new Refused({ status: 413, title: "Too large", text: "This file is too large to download." })

/** The search that an address asks for; an empty text: none. */
const searchOf = ({ url: { searchParams } }: Page.Asked): Effect.Effect<FileSearch, Refused> => {
  const text = (searchParams.get("search") ?? "").trim()
  if (text.length > MAX_SEARCHED_TEXT || /[\r\n]/u.test(text)) {
    return Effect.fail(Refused.bad(`A search has one line of up to ${MAX_SEARCHED_TEXT} characters.`))
  }
  return Effect.succeed({ text, ignoreCase: searchParams.get("case") === "any" })
}

/** Errors of reading a file, as pages. */
const told = {
  AgentDisconnected: () => Effect.fail(isAway),
  FileNotFound: () => Effect.fail(noFile),
  FileProtected: () => Effect.fail(isKept),
  InvalidPath: () => Effect.fail(noFile),
  IsDirectory: () => Effect.fail(noFile),
  RepoNotFound: Effect.die,
  RepoRequired: Effect.die,
  SandboxNotFound: () => Effect.fail(noSandbox),
  SandboxNotRunning: () => Effect.fail(isOver)
}

/** Names in a folder. With several repositories their names come first: the folders of the workspace. */
const namesIn = Effect.fnUntraced(function*(files: typeof Files.Service, by: Principal, { id, repos }: Sandbox, folder: string) {
  const known = repos.map(({ fullName }) => ({ fullName, name: fullName.slice(fullName.indexOf("/") + 1) }))
  const isAlone = known.length === 1
  if (!isAlone && folder === "") return known.map(({ name }) => ({ name, isFolder: true }))
  const [first, ...rest] = folder.split("/")
  const repo = isAlone ? known[0] : known.find(({ name }) => name === first)
  if (repo === undefined) return []
  const { entries } = yield* files.list(by, id, { repo: repo.fullName, path: isAlone ? folder : rest.join("/") })
  return entries.filter(({ path, status }) => status !== "deleted" && !isProtected(path)).map(({ kind, name }) => ({
    name,
    isFolder: kind === "directory"
  }))
})

const none = () => Effect.succeed([])

/** Errors of reading a folder whose names complete what is typed: it has none. */
const noNames = {
  AgentDisconnected: none,
  FileNotFound: none,
  FileProtected: none,
  InvalidPath: none,
  NotADirectory: none,
  RepoNotFound: none,
  RepoRequired: none,
  SandboxNotFound: none,
  SandboxNotRunning: none
}

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const files = yield* Files
  const live = yield* LiveResponses

  /** Which file the address names. */
  const askedFor = Effect.fnUntraced(function*(by: Principal, asked: Page.Asked) {
    const id = yield* idOf(asked)
    const sandbox = yield* sandboxes.get(by, id).pipe(Effect.catchTag("SandboxNotFound", () => Effect.fail(noSandbox)))
    return { sandbox, repo: yield* FilesAddress.repoOf(sandbox, asked.url), path: asked.url.searchParams.get("path") ?? "" }
  })

  const searched = (by: Principal, sandbox: Sandbox, repo: RepoName, search: FileSearch) =>
    files.search(by, sandbox.id, repo, search).pipe(
      Effect.map((found): Content => ({ path: "", shown: foundFiles(sandbox, repo, found, search) }))
    )

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const by = principalOf(member.visit)
    const { path, repo, sandbox } = yield* askedFor(by, asked)
    const start = yield* FilesAddress.afterOf(asked.url, "This link is out of date.")
    const find = (asked.url.searchParams.get("find") ?? "").trim()
    const search = yield* searchOf(asked)
    if (find.length > MAX_FIND) return yield* Refused.bad(`A part of a name may have ${MAX_FIND} characters.`)
    const found = find === "" ? "" : `&${new URLSearchParams({ find }).toString()}`
    const position: Position = { after: start, linkTo: (after) => `${addressOf(sandbox, "files", repo, path)}${found}&after=${after}` }
    const named = files.list(by, sandbox.id, { repo, path }).pipe(
      Effect.map((tree): Content => ({ path: tree.directory, shown: folder(sandbox, repo, tree, position, find) })),
      Effect.catchTag("NotADirectory", () =>
        files.compare(by, sandbox.id, { repo, path }).pipe(
          Effect.map((file): Content => ({ path: file.path, shown: version(sandbox, repo, file.path, file.working, position) })),
          Effect.catchTag("FileTooLarge", () => {
            const download = html`<a class="button quiet" href="${addressOf(sandbox, "files/download", repo, path)}">Download</a>`
            return Effect.succeed({
              path,
              shown: html`<p>This file is too large to show (more than 1 MiB).</p>
<p>${sandbox.status === "running" && download}</p>`
            })
          })
        ))
    )
    const content = yield* Effect.catchTags(search.text === "" ? named : searched(by, sandbox, repo, search), told)
    const body = html`${breadcrumb(sandbox)}
<h1>Files</h1>
${FilesAddress.repositoryLinks(sandbox, repo, (other) => addressOf(sandbox, "files", other, ""))}
${trail(sandbox, repo, content.path)}
${searchForm(sandbox, repo, search)}
${content.shown}`
    return Page.show({ title: `Files: ${sandbox.title}`, place: "sandboxes", body }, member)
  })

  /** A sandbox whose files cannot be read now has no names. */
  const names: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const by = principalOf(member.visit)
    const sandbox = yield* sandboxes.get(by, yield* idOf(asked)).pipe(Effect.catchTag("SandboxNotFound", () => Effect.fail(noSandbox)))
    const typed = FileNames.typedOf(asked.url)
    if (typed === null) return Page.fragment(html``)
    return Page.fragment(FileNames.render(typed, yield* Effect.catchTags(namesIn(files, by, sandbox, typed.folder), noNames)))
  })

  const download: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      const by = principalOf(member.visit)
      const { path: given, repo, sandbox } = yield* askedFor(by, asked)
      const { bytes, path, size } = yield* files.open(by, sandbox.id, { repo, path: given })
      yield* live.download(by, Wire.of(yield* HttpServerRequest.HttpServerRequest), sandbox.id)
      return HttpServerResponse.stream(bytes, {
        contentType: "application/octet-stream",
        contentLength: size,
        headers: { ...INERT, "content-disposition": attachment(path) }
      })
    },
    Effect.catchTags({ ...told, FileTooLarge: () => Effect.fail(isLarge) }),
    Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
  )

  const picture: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, asked) {
      const by = principalOf(member.visit)
      const { path: given, repo, sandbox } = yield* askedFor(by, asked)
      const { bytes, size } = yield* files.open(by, sandbox.id, { repo, path: given })
      if (size > MAX_PICTURE_BYTES) return yield* isLarge
      yield* live.download(by, Wire.of(yield* HttpServerRequest.HttpServerRequest), sandbox.id)
      const whole = Buffer.concat(yield* Stream.runCollect(bytes))
      const contentType = Picture.typeOf(whole)
      if (contentType === null) return yield* Refused.notFound("This file can't be shown.")
      return HttpServerResponse.uint8Array(whole, { contentType, headers: { ...INERT, "content-disposition": "inline" } })
    },
    Effect.catchTags({ ...told, FileTooLarge: () => Effect.fail(isLarge) }),
    Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
  )

  return { get, download, names, picture }
})
