/** Bounds of questions and answers, for schemas and for rules, which load no schema. */

/** Questions of one request. */
export const MAX_QUESTIONS = 10
/** Options of one question. */
export const MAX_OPTIONS = 50
/** Characters of a label. */
export const MAX_LABEL = 300
/** Characters of an answer in the person's own words. */
export const MAX_ANSWER = 10_000
