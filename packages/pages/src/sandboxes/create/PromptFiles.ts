/** Files of a prompt in a form: those that are chosen in it, and those that it uploaded before. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { Uploads } from "@slipway/domain/files/usecases/Uploads"
import { MAX_FILES, type PromptFile } from "@slipway/domain/sandbox/schema/PromptFile"
import { Effect } from "effect"
import { html, type Html } from "../../html/Html.ts"
import type { Form } from "../../layout/Form.ts"
import { Refused } from "../../layout/Refused.ts"

const refused = (title: string, status: 409 | 413, text: string) => Effect.fail(new Refused({ status, title, text }))

/** The files of the form in the order in which they were added. Those that are new in it are uploaded. Files that are gone are left out. */
export const of = Effect.fnUntraced(function*(uploads: typeof Uploads.Service, by: Principal, form: Form) {
  const ids = [...new Set(form.all("files"))].slice(0, MAX_FILES)
  if (ids.length + form.files.length > MAX_FILES) return yield* Refused.bad(`A message can have up to ${MAX_FILES} files.`)
  const known = yield* Effect.forEach(
    ids,
    (id) => Effect.catchTag(Effect.asSome(uploads.get(by, id)), "PromptFileNotFound", () => Effect.succeedNone)
  )
  const added = yield* Effect.forEach(form.files, (file) =>
    uploads.add(by, file).pipe(
      Effect.catchTags({
        TooManyUnusedFiles: ({ message }) => refused("No room for this file", 409, message),
        UploadTooLarge: ({ message }) => refused("File too large", 413, message)
      })
    ))
  return [...known.flatMap((file) => file._tag === "Some" ? [file.value] : []), ...added]
})

const KIBIBYTE = 1024

const sizeOf = (bytes: number): string =>
  bytes < KIBIBYTE
    ? `${bytes} B`
    : bytes < KIBIBYTE ** 2
    ? `${Math.ceil(bytes / KIBIBYTE)} KiB`
    : `${(bytes / KIBIBYTE ** 2).toFixed(1)} MiB`

/**
 * The field of a form. It has no id, so drafts leave it out. `attach.js` adds pasted and dropped files, and shows the chosen ones.
 * `uploaded`: files of a form that comes back.
 */
export const field = (uploaded: ReadonlyArray<PromptFile> = []): Html => {
  const before = uploaded.map(({ id, name, size }) =>
    html`<label class="attached"><input type="checkbox" name="files" value="${id}" checked> ${name}
<span class="fine">${sizeOf(size)}</span></label>
`
  )
  return html`<div class="attach" data-attach="${MAX_FILES}">
${before}<label class="attach-choose">Files <input type="file" name="file" multiple></label>
<ul class="attach-list" data-kept hidden></ul>
</div>`
}
