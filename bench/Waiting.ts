/** Waiting that ends. */

/** The work, or after `seconds` an error with what was waited for. */
export const within = async <A>(seconds: number, what: () => string, work: Promise<A>): Promise<A> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what()}: not within ${seconds} s`)), seconds * 1000)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
