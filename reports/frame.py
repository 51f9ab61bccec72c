import sys
# phone view through an iframe, since headless windows have a minimum width
src,w,h=sys.argv[1],sys.argv[2],sys.argv[3]
open('frame-'+src,'w').write('<body style="margin:0"><iframe src="%s" style="border:0;width:%spx;height:%spx"></iframe>'%(src,w,h))
