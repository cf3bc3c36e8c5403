/** Titles, descriptions and comments in GitLab's forms. */
import { Schema, SchemaGetter } from "effect"

/** Characters of a title at GitLab. */
const MAX_TITLE = 255
const DRAFT = "Draft: "
/** GitLab's marks of a draft at the beginning of a title. */
const DRAFT_MARKS = /^(?:\s*(?:\[draft\]|\(draft\)|draft:))+\s*/iu

/** Does not split characters. */
export const cut = (text: string, maximum: number): string =>
  text.length <= maximum ? text : text.slice(0, /[\ud800-\udbff]$/u.test(text.slice(0, maximum)) ? maximum - 1 : maximum)

/** The title without the marks of a draft. A title of nothing else stays. */
export const plainTitle = (title: string): string => {
  const plain = title.replace(DRAFT_MARKS, "")
  return plain === "" ? title : plain
}

/** The title that makes a merge request a draft. */
export const draftTitle = (title: string): string => `${DRAFT}${cut(title, MAX_TITLE - DRAFT.length)}`

/**
 * The text without quick actions, which GitLab would carry out with the token's rights: `/merge` or `/approve` alone at the beginning of a
 * line. Such a line is shown as it is.
 */
export const withoutQuickActions = (text: string): string =>
  text.replaceAll(/^([^\S\r\n\u2028\u2029]*)\/(?=[A-Za-z_]+(?:\s|$))/gmu, "$1\\/")

/** At most the first `maximum` characters of a text. A substring would keep the whole string in memory. */
export const beginning = (maximum: number) =>
  Schema.String.pipe(Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform((text) => text.length <= maximum ? text : Buffer.from(text.slice(0, maximum).toWellFormed()).toString()),
    encode: SchemaGetter.passthrough()
  }))
