#ifndef KERNELS_OP_ELEMENTARY_H
#define KERNELS_OP_ELEMENTARY_H

/* Elementary functions made of + - * / on doubles, which are exactly rounded everywhere, so that no
   mathematical library decides a bit. Their results are within 10^-14 of the truth, relatively; a
   caller that rounds to float gets the nearest float but for one case in 10^6. */

/* e^x. NaN stays NaN; large arguments give infinity and 0. */
double elementary_exp(double x);

/* Natural logarithm of a finite x > 0. */
double elementary_log(double x);

/* x^y for finite x > 0. */
double elementary_pow(double x, double y);

/* Sine and cosine of an angle in radians, 0 <= x <= 2^28; the absolute error is 10^-15. */
void elementary_sine_cosine(double x, double *sine, double *cosine);

#endif
