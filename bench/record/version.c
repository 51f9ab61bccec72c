#include "bench/record/version.h"

#include "bench/record/commit.h"

const char *version_number(void)
{
	return QUIRE_VERSION;
}

const char *version_commit(void)
{
	return QUIRE_COMMIT;
}

const char *version_cuda(void)
{
#ifdef QUIRE_HAS_CUDA
	return "CUDA " QUIRE_CUDA_VERSION " for " QUIRE_CUDA_ARCHITECTURES;
#else
	return "no CUDA";
#endif
}
