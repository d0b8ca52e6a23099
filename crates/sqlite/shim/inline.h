/*
** What the compiler is told about a call. The branch of our engine is the rare one: so the stock
** engine costs what it costs without us. Included in front of the stock B-tree.
*/
#if defined(__GNUC__)
# define MV_UNLIKELY(x) __builtin_expect_with_probability(!!(x),0,1.0)
# define MV_NOINLINE __attribute__((noinline))
#else
# define MV_UNLIKELY(x) (x)
# define MV_NOINLINE
#endif
/* For what a statement calls for each row: a test and a jump where it is called. SQLite's own test
** programs call it from other files. */
#if defined(__GNUC__) && !defined(SQLITE_TEST)
# define MV_INLINE __attribute__((always_inline)) inline
#else
# define MV_INLINE
#endif
