/** Decodes GitLab's answers to our types. Other fields are dropped. */
import { type CommentWithText, MAX_COMMENT, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Schema } from "effect"
import { beginning, cut, plainTitle } from "./Text.ts"

const nullable = Schema.NullOr(Schema.String)
const optional = Schema.optionalKey
const Instant = Schema.DateTimeUtcFromString

/** Deleted accounts are GitLab's Ghost User. */
export const User = Schema.Struct({ id: Counter, username: Schema.String, avatar_url: optional(nullable) })
export const Users = Schema.Array(User)

export const Branch = Schema.Struct({ name: Schema.String, commit: Schema.Struct({ id: Schema.String }), protected: Schema.Boolean })

export const Member = Schema.Struct({
  id: Counter,
  username: Schema.String,
  state: Schema.String,
  access_level: Schema.Int,
  expires_at: optional(nullable)
})

/** Items of a list lack the fields of the changes. */
export const MergeRequests = Schema.Array(Schema.Struct({
  id: Counter,
  iid: Counter,
  title: Schema.String,
  draft: Schema.Boolean,
  source_branch: Schema.String,
  source_project_id: Schema.NullOr(Counter)
}))

export const MergeRequest = Schema.Struct({
  id: Counter,
  iid: Counter,
  web_url: Schema.String,
  title: Schema.String,
  state: Schema.Literals(["opened", "closed", "locked", "merged"]),
  draft: Schema.Boolean,
  target_branch: Schema.String,
  source_branch: Schema.String,
  source_project_id: Schema.NullOr(Counter),
  /** `null`: its branch was deleted before GitLab prepared it. */
  sha: nullable,
  created_at: Instant,
  updated_at: Instant,
  /** `preparing` and `checking` pass by themselves. */
  detailed_merge_status: optional(Schema.String),
  labels: Schema.Array(Schema.String),
  reviewers: optional(Schema.NullOr(Users)),
  /** `null` until GitLab has prepared a new merge request. */
  diff_refs: optional(Schema.NullOr(Schema.Struct({ base_sha: nullable, head_sha: nullable, start_sha: nullable })))
})
export type MergeRequest = typeof MergeRequest.Type

/** GitLab's numbers of lines and files. */
export interface Counts {
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
}

/** `locked`: GitLab is merging it. */
export const isOpen = ({ state }: Pick<MergeRequest, "state">): boolean => state === "opened" || state === "locked"

export const toPullRequest = (mergeRequest: MergeRequest, counts: Counts): PullRequest => ({
  id: mergeRequest.id,
  nodeId: `gid://gitlab/MergeRequest/${mergeRequest.id}`,
  number: mergeRequest.iid,
  url: mergeRequest.web_url,
  title: mergeRequest.draft ? plainTitle(mergeRequest.title) : mergeRequest.title,
  state: isOpen(mergeRequest) ? "open" : "closed",
  draft: mergeRequest.draft,
  merged: mergeRequest.state === "merged",
  baseRef: mergeRequest.target_branch,
  headRef: mergeRequest.source_branch,
  headSha: mergeRequest.sha ?? "",
  createdAt: mergeRequest.created_at,
  updatedAt: mergeRequest.updated_at,
  ...counts
})

/** The place of a comment on code. A comment on a whole file or an image has no line. */
const Position = Schema.Struct({
  new_path: optional(nullable),
  old_path: optional(nullable),
  new_line: optional(Schema.NullOr(Counter)),
  old_line: optional(Schema.NullOr(Counter))
})
/** `maximum`: characters of the text that are kept. */
export const notes = (maximum: number) =>
  Schema.Array(Schema.Struct({
    id: Counter,
    /** `DiffNote` on code; `null` or `DiscussionNote` elsewhere. */
    type: nullable,
    body: beginning(maximum),
    author: User,
    created_at: Schema.String,
    updated_at: Schema.String,
    /** GitLab's own text, such as "added 1 commit". */
    system: Schema.Boolean,
    /** Only members with the role Planner or higher can read it. */
    internal: optional(Schema.NullOr(Schema.Boolean)),
    position: optional(Schema.NullOr(Position))
  }))
export type Note = ReturnType<typeof notes>["Type"][number]

/** The file and line of a comment on code. Lines that were removed are those of the old file. */
export const placeOf = (
  { position, type }: Pick<Note, "position" | "type">
): { readonly path: string | null; readonly line: number | null } =>
  type !== "DiffNote" || position == null
    ? { path: null, line: null }
    : { path: position.new_path ?? position.old_path ?? null, line: position.new_line ?? position.old_line ?? null }

export const noteUrl = (mergeRequestUrl: string, id: number): string => `${mergeRequestUrl}#note_${id}`

export const toComment = (mergeRequestUrl: string, note: Note): CommentWithText => {
  const { line, path } = placeOf(note)
  return {
    id: note.id,
    title: path === null ? "Comment" : `Review comment on ${path}`,
    author: note.author.username,
    authorAvatarUrl: note.author.avatar_url ?? "",
    createdAt: note.created_at,
    updatedAt: note.updated_at,
    url: noteUrl(mergeRequestUrl, note.id),
    text: cut(note.body, MAX_COMMENT),
    isWhole: note.body.length <= MAX_COMMENT,
    path,
    line
  }
}

/** The account of a project or group access token: GitLab's own name for it. */
export const isTokenAccount = (username: string): boolean => /^(?:project|group)_\d+_bot(?:_?[0-9a-f]*)$/u.test(username)

/** GitLab's times have milliseconds, or not. */
export const instantOf = (text: string): DateTime.Utc => DateTime.makeUnsafe(text)
